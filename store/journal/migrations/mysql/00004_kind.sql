-- MySQL commits each DDL statement by itself, and knows no ADD COLUMN IF NOT
-- EXISTS: a run that broke off before its version was noted finds the columns
-- there and goes on. All of it runs on one session.
-- +goose NO TRANSACTION
-- +goose Up

-- What made a change, where the states before and after do not say it, and the
-- message that it names. NULL for none, which takes no room.
--   kind   merged, requeued and their like, by number
--   other  the uid of the message that it went into, or goes on as or for
SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE transitions ADD COLUMN kind TINYINT UNSIGNED NULL, ADD COLUMN other VARCHAR(18) CHARACTER SET ascii COLLATE ascii_bin NULL')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'transitions' AND COLUMN_NAME = 'kind');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;

SET @tarry_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE messages ADD COLUMN kind TINYINT UNSIGNED NULL, ADD COLUMN other VARCHAR(18) CHARACTER SET ascii COLLATE ascii_bin NULL')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'messages' AND COLUMN_NAME = 'kind');
PREPARE tarry_ddl FROM @tarry_ddl;
EXECUTE tarry_ddl;
DEALLOCATE PREPARE tarry_ddl;
