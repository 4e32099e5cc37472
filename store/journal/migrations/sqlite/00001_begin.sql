-- +goose Up

-- What belongs to the database as a whole: "namespace" (one database serves
-- one) and "term" (the highest that any change carries).
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- The words of the numbers in the columns "state", for people and their joins.
CREATE TABLE states (
  number INTEGER NOT NULL PRIMARY KEY,
  word   TEXT    NOT NULL
);

INSERT INTO states (number, word) VALUES
  (0, 'none'), (1, 'waiting'), (2, 'in_flight'), (3, 'delivered'), (4, 'canceled'), (5, 'expired'), (6, 'dead');

-- The certification of the store that each bucket lies in. number 0 stands
-- where nothing was certified yet.
CREATE TABLE fences (
  bucket INTEGER NOT NULL PRIMARY KEY,
  number INTEGER NOT NULL
);

-- One row a message. All times are unix milliseconds, UTC. Columns come in two
-- sets: the content is as of version "content", everything else as of "version".
-- +goose StatementBegin
CREATE TABLE messages (
  uid      TEXT    NOT NULL PRIMARY KEY,       -- sorts by acceptance
  accepted INTEGER NOT NULL,                   -- the uid's own time

  topic    TEXT    NOT NULL DEFAULT '',        -- content: the NATS subject it is due on
  id       TEXT    NOT NULL DEFAULT '',        -- content: the user's own name for it, '' without one
  `key`    TEXT    NOT NULL DEFAULT '',        -- content: the business key, '' without one
  size     INTEGER NOT NULL DEFAULT 0,         -- content: bytes of body, header names and header values
  priority INTEGER NOT NULL DEFAULT 0,         -- content: high leaves first among equal due times
  ttl      INTEGER NOT NULL DEFAULT 0,         -- content: milliseconds after due that it is worth delivering, 0 for ever
  attempt  INTEGER NOT NULL DEFAULT 0,         -- content: the number that its delivery carries
  digest   BLOB    NOT NULL DEFAULT x'00000000000000000000000000000000', -- content: of the push as it was sent, zeros without an id
  content  INTEGER NOT NULL DEFAULT 0,         -- the version that the content is from, 0 while it is not known

  due       INTEGER NOT NULL,
  state     INTEGER NOT NULL,                  -- see states
  uncertain INTEGER NOT NULL,                  -- 1: a consumer may have seen it although nothing proves it
  refusals  INTEGER NOT NULL,                  -- NATS's permanent refusals so far
  changed   INTEGER NOT NULL,                  -- when the latest change happened
  ended     INTEGER NULL,                      -- when it ended, NULL while it has not
  reason    TEXT    NOT NULL,                  -- why the latest change was made, where the state does not tell
  version   INTEGER NOT NULL,                  -- changes so far, 1 is the acceptance

  -- Last, so that reading the others does not walk through a long body's pages.
  headers   BLOB    NOT NULL,                  -- content: user headers, packed (content.go)
  body      BLOB    NOT NULL                   -- content: as it was sent
);
-- +goose StatementEnd

CREATE INDEX messages_state ON messages (state, due, uid);        -- what waits, by due: restore, lists, forecast
CREATE INDEX messages_topic ON messages (topic, state, due, uid); -- the same of one topic
CREATE INDEX messages_key   ON messages (`key`, due, uid) WHERE `key` <> ''; -- what belongs to a business key
CREATE INDEX messages_id    ON messages (id, uid) WHERE id <> '';            -- look-up by name

-- One row a change of state. All times are unix milliseconds, UTC.
-- +goose StatementBegin
CREATE TABLE transitions (
  uid      TEXT    NOT NULL,
  version  INTEGER NOT NULL,                   -- counts a message's changes: 1 is the acceptance
  state    INTEGER NOT NULL,                   -- what it became; see states
  at       INTEGER NOT NULL,
  claimed  INTEGER NOT NULL,                   -- when the attempt was claimed that led here, 0 without one
  bucket   INTEGER NOT NULL,
  instance TEXT    NOT NULL,                   -- who made the change
  address  TEXT    NOT NULL,                   -- and where it can be reached
  term     INTEGER NOT NULL,                   -- of the leadership, 0 for what any instance may do
  attempt  INTEGER NOT NULL,                   -- the number that the attempt's delivery carried, 0 without one
  reason   TEXT    NOT NULL,
  stream   TEXT    NOT NULL,                   -- the JetStream stream that stored it, '' for core NATS
  sequence INTEGER NOT NULL,                   -- and at which sequence
  PRIMARY KEY (uid, version)
) WITHOUT ROWID;
-- +goose StatementEnd

CREATE INDEX transitions_at ON transitions (state, at, uid, version); -- what became of messages lately; pruning
