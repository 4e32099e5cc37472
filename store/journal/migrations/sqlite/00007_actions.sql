-- +goose Up

-- One row an action of an operator: written before it is done, and once more when it has ended.
CREATE TABLE actions (
  id       TEXT    NOT NULL PRIMARY KEY,
  at       INTEGER NOT NULL, -- when it began, unix milliseconds, UTC
  who      TEXT    NOT NULL, -- the name of a token
  address  TEXT    NOT NULL, -- where the request came from
  instance TEXT    NOT NULL, -- that did it
  what     TEXT    NOT NULL, -- the operation
  dry      INTEGER NOT NULL, -- 1: it only counted
  subject  BLOB    NOT NULL, -- JSON: on what, and how much of it was done
  problem  TEXT    NOT NULL, -- the word of the refusal, '' if it was done
  took     INTEGER NOT NULL, -- milliseconds until it ended
  ended    INTEGER NOT NULL  -- 0: it runs, or its instance died
);

CREATE INDEX actions_at ON actions (at, id); -- the last ones, and pruning
