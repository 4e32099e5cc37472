-- MySQL commits each DDL statement by itself, and knows no ADD COLUMN IF NOT
-- EXISTS: a run that broke off before its version was noted finds the columns
-- there and goes on. All of it runs on one session.
-- +goose NO TRANSACTION
-- +goose Up

-- What a change made of the message, so that its history tells. NULL where it is
-- 0, which takes no room, and in rows from before this version, where it is not
-- known.
--   due        when it is due after the change
--   uncertain  1: a consumer may have seen it although nothing proves it
--   refusals   NATS's permanent refusals so far
SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE transitions ADD COLUMN due BIGINT NULL, ADD COLUMN uncertain TINYINT UNSIGNED NULL, ADD COLUMN refusals INT UNSIGNED NULL')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'transitions' AND COLUMN_NAME = 'due');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;
