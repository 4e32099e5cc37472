-- MySQL commits each DDL statement by itself: a run that broke off before its version was noted finds the columns there
-- and goes on. All of it runs on one session.
-- +goose NO TRANSACTION
-- +goose Up

-- Who delivers a message, and for how long a consumer may hold it. A list reads what waits for NATS and what consumers
-- pull as two stretches of an index.
--   pull   content: 1: consumers pull it
--   lease  content: milliseconds, 0 as its topic says
SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE messages
    ADD COLUMN pull TINYINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN lease BIGINT NOT NULL DEFAULT 0,
    DROP INDEX messages_state, ADD INDEX messages_state (state, pull, due, uid),
    DROP INDEX messages_topic, ADD INDEX messages_topic (topic, state, pull, due, uid)')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'messages' AND COLUMN_NAME = 'pull');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;

INSERT IGNORE INTO states (number, word) VALUES (7, 'ready'); -- waiting, for pull and due: only answers show it
