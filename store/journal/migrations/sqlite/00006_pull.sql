-- +goose Up

-- Who delivers a message, and for how long a consumer may hold it. A list reads what waits for NATS and what consumers
-- pull as two stretches of an index.
ALTER TABLE messages ADD COLUMN pull  INTEGER NOT NULL DEFAULT 0; -- content: 1: consumers pull it
ALTER TABLE messages ADD COLUMN lease INTEGER NOT NULL DEFAULT 0; -- content: milliseconds, 0 as its topic says

DROP INDEX messages_state;
DROP INDEX messages_topic;
CREATE INDEX messages_state ON messages (state, pull, due, uid);        -- what waits, by due: restore, lists, forecast
CREATE INDEX messages_topic ON messages (topic, state, pull, due, uid); -- the same of one topic

INSERT INTO states (number, word) VALUES (7, 'ready'); -- waiting, for pull and due: only answers show it
