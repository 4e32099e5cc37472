-- +goose Up

-- The last change of every pattern of topics that was ever paused: what the
-- operators hold back outlives the store that the messages wait in.
CREATE TABLE pauses (
  pattern TEXT    NOT NULL PRIMARY KEY,
  at      INTEGER NOT NULL,              -- unix milliseconds; no two changes share one
  paused  INTEGER NOT NULL,              -- 0: it was resumed
  who     TEXT    NOT NULL               -- who paused it
) WITHOUT ROWID;
