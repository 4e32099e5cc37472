-- +goose Up

-- What a change made of the message, so that its history tells. NULL where it is
-- 0, and in rows from before this version, where it is not known.
ALTER TABLE transitions ADD COLUMN due       INTEGER NULL; -- when it is due after the change
ALTER TABLE transitions ADD COLUMN uncertain INTEGER NULL; -- 1: a consumer may have seen it although nothing proves it
ALTER TABLE transitions ADD COLUMN refusals  INTEGER NULL; -- NATS's permanent refusals so far
