-- mirror copies the pauses of another bucket here, unless this one has later ones.
-- KEYS paused
-- ARGV 1 when the last change was, in ms  2... pattern, and since when and by whom, of each
-- Result: 1 if they were written, else 0. Twice: the second time 0.
local last = tonumber(redis.call('HGET', PAUSED, '') or '0') or 0
if last >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', PAUSED)
redis.call('HSET', PAUSED, '', ARGV[1], unpack(ARGV, 2))
return 1
