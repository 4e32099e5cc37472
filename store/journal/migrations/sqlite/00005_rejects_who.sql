-- +goose Up

-- One row a push that NATS acknowledged to its producer and tarry did not accept. All times are unix milliseconds, UTC.
CREATE TABLE rejects (
  uid    TEXT    NOT NULL PRIMARY KEY, -- sorts by when NATS stored it
  at     INTEGER NOT NULL,             -- when it was rejected
  id     TEXT    NOT NULL,             -- the user's own name for it, '' without one that could be read
  topic  TEXT    NOT NULL,             -- the NATS subject it would have been due on
  reason TEXT    NOT NULL,             -- the word of the refusal and its text
  digest BLOB    NOT NULL,             -- SHA-256 of the whole body
  size   INTEGER NOT NULL,             -- bytes of the whole body
  body   BLOB    NOT NULL              -- its first 64 KiB; empty if the database refused them
);

CREATE INDEX rejects_id ON rejects (id, uid) WHERE id <> ''; -- look-up by name
CREATE INDEX rejects_at ON rejects (at);                     -- pruning

-- On whose behalf a change was made: the name of a token of the HTTP API, or nats. NULL where the instance acted by
-- itself, or asks for no token, and in rows from before this version.
ALTER TABLE transitions ADD COLUMN who TEXT NULL;
ALTER TABLE messages    ADD COLUMN who TEXT NULL;
