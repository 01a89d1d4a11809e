-- One text for SQLite and PostgreSQL. Numbers come from `sequences`, whose row lock also puts the writers of
-- keys in one order, so that `key_changes` is complete up to every number that can be read.
CREATE TABLE sequences (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO sequences (name, value) VALUES ('account', 0), ('key', 0), ('key_change', 0);

CREATE TABLE accounts (
    id         BIGINT PRIMARY KEY,
    email      TEXT NOT NULL UNIQUE,
    created_ms BIGINT NOT NULL
);

CREATE TABLE keys (
    id          BIGINT PRIMARY KEY,
    account_id  BIGINT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    -- SHA-256 of the text, in hexadecimal; the text itself is nowhere.
    hash        TEXT NOT NULL UNIQUE,
    last_four   TEXT NOT NULL,
    scope       TEXT NOT NULL,
    daily_limit BIGINT NOT NULL,
    -- 0 or 1: the Any driver has no BOOLEAN on SQLite.
    active      SMALLINT NOT NULL,
    -- NULL unless paused.
    paused_ms   BIGINT,
    -- How often the key was resumed: a higher number than before means a fresh burst window.
    resumes     BIGINT NOT NULL,
    created_ms  BIGINT NOT NULL
);
CREATE INDEX keys_of_account ON keys (account_id);

CREATE TABLE key_changes (
    seq    BIGINT PRIMARY KEY,
    key_id BIGINT NOT NULL
);

-- Subject 0 is the demo, every other is a key. `mark` is how far requests of that day may have been served
-- without having been counted in `used` yet.
CREATE TABLE usage (
    subject BIGINT NOT NULL,
    day     BIGINT NOT NULL,
    used    BIGINT NOT NULL,
    mark    BIGINT NOT NULL,
    PRIMARY KEY (subject, day)
);

CREATE TABLE facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
