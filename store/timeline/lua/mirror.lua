-- mirror brings the pauses of another bucket here, unless later ones stand.
-- KEYS 1 paused
-- ARGV 1 when the last change was, in ms  2... pattern, and since when and by whom, of each
-- Result: 1 where they were written, else 0. Twice: the second time 0.
local last = tonumber(redis.call('HGET', KEYS[1], '') or '0') or 0
if last >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '', ARGV[1], unpack(ARGV, 2))
return 1
