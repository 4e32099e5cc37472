-- MySQL commits each DDL statement by itself, so every statement here may run
-- again: a run that broke off is simply repeated.
-- +goose NO TRANSACTION
-- +goose Up

-- What belongs to the database as a whole: "namespace" (one database serves
-- one) and "term" (the highest that any change carries).
CREATE TABLE IF NOT EXISTS meta (
  name  VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  value VARCHAR(255) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The words of the numbers in the columns "state", for people and their joins.
CREATE TABLE IF NOT EXISTS states (
  number TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  word   VARCHAR(16)      NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO states (number, word) VALUES
  (0, 'none'), (1, 'waiting'), (2, 'in_flight'), (3, 'delivered'), (4, 'canceled'), (5, 'expired'), (6, 'dead')
ON DUPLICATE KEY UPDATE word = VALUES(word);

-- The certification of the Redis that each bucket lies in. number 0 is a row to
-- lock where nothing was certified yet.
CREATE TABLE IF NOT EXISTS fences (
  bucket INT    NOT NULL PRIMARY KEY,
  number BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row a message. All times are unix milliseconds, UTC. Columns come in two
-- sets: the content is as of version "content", everything else as of "version".
-- Each index costs the server about 2 us a message, and 10 us more where an end
-- changes it (state, topic). So "ended" has none, see Prune.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS messages (
  uid      VARCHAR(18) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- sorts by acceptance
  accepted BIGINT NOT NULL,                        -- the uid's own time

  topic    VARCHAR(255) NOT NULL DEFAULT '',       -- content: the NATS subject it is due on
  id       VARCHAR(255) NOT NULL DEFAULT '',       -- content: the user's own name for it, '' without one
  `key`    VARCHAR(255) NOT NULL DEFAULT '',       -- content: the business key, '' without one
  headers  MEDIUMBLOB   NOT NULL,                  -- content: user headers, packed (content.go)
  body     LONGBLOB     NOT NULL,                  -- content: as it was sent
  size     INT UNSIGNED NOT NULL DEFAULT 0,        -- content: bytes of body, header names and header values
  priority TINYINT UNSIGNED NOT NULL DEFAULT 0,    -- content: high leaves first among equal due times
  ttl      BIGINT       NOT NULL DEFAULT 0,        -- content: milliseconds after due that it is worth delivering, 0 for ever
  attempt  INT UNSIGNED NOT NULL DEFAULT 0,        -- content: the number that its delivery carries
  digest   BINARY(16)   NOT NULL DEFAULT '',       -- content: of the push as it was sent, zeros without an id
  content  BIGINT       NOT NULL DEFAULT 0,        -- the version that these are from, 0 while they are not known

  due       BIGINT           NOT NULL,
  state     TINYINT UNSIGNED NOT NULL,             -- see states
  uncertain TINYINT UNSIGNED NOT NULL,             -- 1: a consumer may have seen it although nothing proves it
  refusals  INT UNSIGNED     NOT NULL,             -- NATS's permanent refusals so far
  changed   BIGINT           NOT NULL,             -- when the latest change happened
  ended     BIGINT           NULL,                 -- when it ended, NULL while it has not
  reason    VARCHAR(1024)    NOT NULL,             -- why the latest change was made, where the state does not tell
  version   BIGINT           NOT NULL,             -- changes so far, 1 is the acceptance

  KEY messages_state (state, due, uid),            -- what waits, by due: restore, lists, forecast
  KEY messages_topic (topic, state, due, uid),     -- the same of one topic
  KEY messages_key   (`key`, due, uid),            -- what belongs to a business key
  KEY messages_id    (id, uid)                     -- look-up by name
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
-- +goose StatementEnd

-- One row a change of state. All times are unix milliseconds, UTC.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS transitions (
  uid      VARCHAR(18) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version  BIGINT           NOT NULL,              -- counts a message's changes: 1 is the acceptance
  state    TINYINT UNSIGNED NOT NULL,              -- what it became; see states
  at       BIGINT           NOT NULL,
  claimed  BIGINT           NOT NULL,              -- when the attempt was claimed that led here, 0 without one
  bucket   INT              NOT NULL,
  instance VARCHAR(255)     NOT NULL,              -- who made the change
  address  VARCHAR(255)     NOT NULL,              -- and where it can be reached
  term     BIGINT           NOT NULL,              -- of the leadership, 0 for what any instance may do
  attempt  INT UNSIGNED     NOT NULL,              -- the number that the attempt's delivery carried, 0 without one
  reason   VARCHAR(1024)    NOT NULL,
  stream   VARCHAR(255)     NOT NULL,              -- the JetStream stream that stored it, '' for core NATS
  sequence BIGINT           NOT NULL,              -- and at which sequence
  PRIMARY KEY (uid, version),
  KEY transitions_at (state, at, uid, version)     -- what became of messages lately; pruning
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
-- +goose StatementEnd
