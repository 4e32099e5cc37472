-- +goose NO TRANSACTION
-- +goose Up

-- One row an action of an operator: written before it is done, and once more when it has ended.
CREATE TABLE IF NOT EXISTS actions (
  id       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  at       BIGINT           NOT NULL, -- when it began, unix milliseconds, UTC
  who      VARCHAR(255)     NOT NULL, -- the name of a token
  address  VARCHAR(255)     NOT NULL, -- where the request came from
  instance VARCHAR(255)     NOT NULL, -- that did it
  what     VARCHAR(255)     NOT NULL, -- the operation
  dry      TINYINT UNSIGNED NOT NULL, -- 1: it only counted
  subject  BLOB             NOT NULL, -- JSON: on what, and how much of it was done
  problem  VARCHAR(255)     NOT NULL, -- the word of the refusal, '' if it was done
  took     BIGINT           NOT NULL, -- milliseconds until it ended
  ended    TINYINT UNSIGNED NOT NULL, -- 0: it runs, or its instance died
  KEY actions_at (at, id)             -- the last ones, and pruning
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
