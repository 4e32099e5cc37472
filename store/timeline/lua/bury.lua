-- bury leaves a tombstone for a client id that names nothing in this bucket.
-- KEYS 1 name  2 tomb  3 tombs
-- ARGV 1 id  2 key  3 'id' (any key) or 'key'  4 sequence  5 now in ms  6 limit
-- Result: uids under that name; then no tombstone is left.
-- Twice: the tombstone is renewed.
local found = {}
names(redis.call('HGET', KEYS[1], ARGV[1]), function(uid, key)
  if ARGV[3] == 'id' or key == ARGV[2] then found[#found + 1] = uid end
end)
if #found > 0 then return found end
local field = ARGV[3] == 'id' and 'a' .. ARGV[1] or 'k' .. string.char(#ARGV[2]) .. ARGV[2] .. ARGV[1]
local sequence = tonumber(ARGV[4])
local old = redis.call('HGET', KEYS[2], field)
if old then sequence = math.max(sequence, tonumber(string.match(old, '^%d+'))) end
-- The order is by time, then by when it was laid within the millisecond.
local place = tonumber(ARGV[5]) * 4096
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
if last and tonumber(last) >= place then place = tonumber(last) + 1 end
redis.call('HSET', KEYS[2], field, string.format('%.0f:%s', sequence, ARGV[5]))
redis.call('ZADD', KEYS[3], string.format('%.0f', place), field)
local over = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[6])
if over > 0 then redis.call('HDEL', KEYS[2], unpack(redis.call('ZRANGE', KEYS[3], 0, over - 1))) end
if over > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, over - 1) end
return found
