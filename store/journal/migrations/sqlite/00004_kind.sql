-- +goose Up

-- What made a change, where the states before and after do not say it, and the
-- message that it names. NULL for none.
--   kind   merged, requeued and their like, by number
--   other  the uid of the message that it went into, or goes on as or for
ALTER TABLE transitions ADD COLUMN kind  INTEGER NULL;
ALTER TABLE transitions ADD COLUMN other TEXT    NULL;
ALTER TABLE messages    ADD COLUMN kind  INTEGER NULL;
ALTER TABLE messages    ADD COLUMN other TEXT    NULL;
