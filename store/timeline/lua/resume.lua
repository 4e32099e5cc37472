-- resume lets a pattern of topics go again.
-- KEYS 1 paused
-- ARGV 1 pattern  2 when it is asked for, in ms
-- Result: how many pauses that ended, when that counts as done.
-- Twice: the second time none.
local last = tonumber(redis.call('HGET', KEYS[1], '')) or 0
local at = string.format('%.0f', math.max(last + 1, tonumber(ARGV[2])))
local was = redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], '', at)
return {tostring(was), at}
