-- sending counts a sending of a poll's attempt.
-- KEYS attempt
-- ARGV 1 attempt  2 for how long it is counted, in ms
-- Result: how many were counted before.
-- Twice: it counts as two.
local key = ATTEMPT .. ':' .. ARGV[1]
local before = tonumber(redis.call('GET', key) or '0')
redis.call('DEL', key) -- a removal, so that a full Redis does not refuse it
redis.call('SET', key, before + 1, 'PX', ARGV[2])
return {before}
