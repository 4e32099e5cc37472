-- MySQL commits each DDL statement by itself, and knows no ADD COLUMN IF NOT
-- EXISTS: a run that broke off before its version was noted finds the columns
-- there and goes on. All of it runs on one session.
-- +goose NO TRANSACTION
-- +goose Up

-- One row a push that NATS acknowledged to its producer and tarry did not accept. All times are unix milliseconds, UTC.
CREATE TABLE IF NOT EXISTS rejects (
  uid    VARCHAR(18) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- sorts by when NATS stored it
  at     BIGINT        NOT NULL, -- when it was rejected
  id     VARCHAR(255)  NOT NULL, -- the user's own name for it, '' without one that could be read
  topic  VARCHAR(255)  NOT NULL, -- the NATS subject it would have been due on
  reason VARCHAR(1024) NOT NULL, -- the word of the refusal and its text
  digest BINARY(32)    NOT NULL, -- SHA-256 of the whole body
  size   INT UNSIGNED  NOT NULL, -- bytes of the whole body
  body   LONGBLOB      NOT NULL, -- its first 64 KiB; empty if the database refused them
  KEY rejects_id (id, uid),      -- look-up by name
  KEY rejects_at (at)            -- pruning
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- On whose behalf a change was made: the name of a token of the HTTP API, or nats. NULL where the instance acted by
-- itself, or asks for no token, and in rows from before this version.
SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE transitions ADD COLUMN who VARCHAR(255) NULL')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'transitions' AND COLUMN_NAME = 'who');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;

SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE messages ADD COLUMN who VARCHAR(255) NULL')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'messages' AND COLUMN_NAME = 'who');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;
