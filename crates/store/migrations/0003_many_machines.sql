-- What several machines on one database need. Only additions, as before.

-- Who deletes links of several at once, or counts them, waits here for their turn.
INSERT INTO sequences (name, value) VALUES ('token', 0);

-- The servers that work on this database, as each of them says itself. No address stands here.
CREATE TABLE nodes (
    -- Made anew with each start.
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms    BIGINT NOT NULL
);
