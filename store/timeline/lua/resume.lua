-- resume lets a pattern of topics be delivered again.
-- KEYS paused
-- ARGV 1 pattern  2 time of the call in ms
-- Result: how many pauses this ended, the time recorded for it.
-- Twice: the second time none.
local last = tonumber(redis.call('HGET', PAUSED, '')) or 0
local at = string.format('%.0f', math.max(last + 1, tonumber(ARGV[2])))
local was = redis.call('HDEL', PAUSED, ARGV[1])
redis.call('HSET', PAUSED, '', at)
return {tostring(was), at}
