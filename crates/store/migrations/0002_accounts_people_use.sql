-- What people need who use their account in a browser. Only additions, every new column with a default, and whatever
-- belongs to an account or a key goes with it: a program of the version before, still at work on this database,
-- neither fails by it nor leaves anything behind.
ALTER TABLE accounts ADD COLUMN password TEXT;
-- NULL until the owner has shown that mail to the address arrives.
ALTER TABLE accounts ADD COLUMN verified_ms BIGINT;
-- NULL unless signing in takes a second factor.
ALTER TABLE accounts ADD COLUMN totp_secret TEXT;
-- The last step of time whose code was used: no code is good twice.
ALTER TABLE accounts ADD COLUMN totp_step BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN mail_pause SMALLINT NOT NULL DEFAULT 1;
ALTER TABLE accounts ADD COLUMN mail_quota SMALLINT NOT NULL DEFAULT 1;

-- The requests of each of the sixty seconds that ended with the pause, separated by commas; NULL if it was by hand.
ALTER TABLE keys ADD COLUMN pause_minute TEXT;

CREATE INDEX usage_of_day ON usage (day);

INSERT INTO sequences (name, value) VALUES ('session', 0), ('activity', 0);

-- A code that was used is no more.
CREATE TABLE recovery_codes (
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    hash       TEXT NOT NULL,
    PRIMARY KEY (account_id, hash)
);

CREATE TABLE sessions (
    id                BIGINT PRIMARY KEY,
    -- SHA-256 of what the cookie holds, in hexadecimal.
    hash              TEXT NOT NULL UNIQUE,
    account_id        BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    device            TEXT NOT NULL,
    created_ms        BIGINT NOT NULL,
    seen_ms           BIGINT NOT NULL,
    second_factor_due SMALLINT NOT NULL
);
CREATE INDEX sessions_of_account ON sessions (account_id);

-- What a link by mail, or from the operator, stands for. One that was used is no more.
CREATE TABLE tokens (
    hash       TEXT PRIMARY KEY,
    purpose    TEXT NOT NULL,
    -- NULL before there is an account.
    account_id BIGINT REFERENCES accounts (id) ON DELETE CASCADE,
    email      TEXT,
    password   TEXT,
    ends_ms    BIGINT NOT NULL
);
CREATE INDEX tokens_of_account ON tokens (account_id);
CREATE INDEX tokens_of_email ON tokens (email);

-- What was done to an account and its keys. A key that is no more keeps its lines here.
CREATE TABLE activity (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    at_ms      BIGINT NOT NULL,
    what       TEXT NOT NULL,
    key_id     BIGINT,
    detail     TEXT
);
CREATE INDEX activity_of_account ON activity (account_id, id);

-- The text that a key had before it was rolled, while it still works: of each key one at most.
CREATE TABLE old_texts (
    hash      TEXT PRIMARY KEY,
    key_id    BIGINT NOT NULL UNIQUE REFERENCES keys (id) ON DELETE CASCADE,
    last_four TEXT NOT NULL,
    ends_ms   BIGINT NOT NULL
);

CREATE TABLE outcomes_by_day (
    key_id     BIGINT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    day        BIGINT NOT NULL,
    answered   BIGINT NOT NULL,
    over_quota BIGINT NOT NULL,
    refused    BIGINT NOT NULL,
    PRIMARY KEY (key_id, day)
);

-- Hours are counted from 1970, like days.
CREATE TABLE outcomes_by_hour (
    key_id     BIGINT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    hour       BIGINT NOT NULL,
    answered   BIGINT NOT NULL,
    over_quota BIGINT NOT NULL,
    refused    BIGINT NOT NULL,
    PRIMARY KEY (key_id, hour)
);
CREATE INDEX outcomes_of_hour ON outcomes_by_hour (hour);

-- What owners were told, or chose not to be: of a pause its moment, of a quota the day.
CREATE TABLE notices (
    key_id   BIGINT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    kind     TEXT NOT NULL,
    occasion BIGINT NOT NULL,
    PRIMARY KEY (key_id, kind, occasion)
);
