-- bury leaves a tombstone for a client id that names nothing in this bucket.
-- KEYS 1 name  2 tomb  3 tombs  4 names
-- ARGV 1 id  2 key  3 'id' (any key) or 'key'  4 sequence  5 now in ms  6 limit  7 how many keys at most
-- Result: uids under that name; then no tombstone is left. 'many' alone where
--      more keys have the id.
-- Twice: the tombstone is renewed.
local found = {}
local function tell(uid) found[#found + 1] = uid end
if ARGV[3] == 'key' then
  attempts(redis.call('HGET', KEYS[1], field(ARGV[1], ARGV[2])), tell)
else
  attempts(redis.call('HGET', KEYS[1], field(ARGV[1], '')), tell)
  local keys = keyed(KEYS[4], ARGV[1], tonumber(ARGV[7]))
  if #keys > tonumber(ARGV[7]) then return {'many'} end
  for _, key in ipairs(keys) do attempts(redis.call('HGET', KEYS[1], field(ARGV[1], key)), tell) end
end
if #found > 0 then return found end
local tomb = ARGV[3] == 'id' and 'a' .. ARGV[1] or 'k' .. string.char(#ARGV[2]) .. ARGV[2] .. ARGV[1]
local sequence = tonumber(ARGV[4])
local old = redis.call('HGET', KEYS[2], tomb)
if old then sequence = math.max(sequence, tonumber(string.match(old, '^%d+'))) end
-- The order is by time, then by when it was laid within the millisecond.
local place = tonumber(ARGV[5]) * 4096
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
if last and tonumber(last) >= place then place = tonumber(last) + 1 end
redis.call('HSET', KEYS[2], tomb, string.format('%.0f:%s', sequence, ARGV[5]))
redis.call('ZADD', KEYS[3], string.format('%.0f', place), tomb)
local over = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[6])
if over > 0 then redis.call('HDEL', KEYS[2], unpack(redis.call('ZRANGE', KEYS[3], 0, over - 1))) end
if over > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, over - 1) end
return found
