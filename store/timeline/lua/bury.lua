-- bury leaves a tombstone for a client id that names nothing on a topic in this bucket.
-- KEYS 1 name  2 tomb  3 tombs  4 names
-- ARGV 1 id  2 topic  3 'k' where a key is given  4 key  5 sequence  6 now in ms  7 limit
--      8 how many keys at most  9 a tombstone of this time or before, in ms, has had its time
-- Result: uids under that name; then no tombstone is left. 'many' alone where
--      more keys have the id, 'full' where there is no room for another tombstone: one
--      that stands was promised to somebody.
-- Twice: the tombstone is renewed.
local found, id, topic = {}, ARGV[1], ARGV[2]
local function tell(uid) found[#found + 1] = uid end
local at = field(id, topic, ARGV[4])
if ARGV[3] == 'k' then
  attempts(redis.call('HGET', KEYS[1], at), tell)
else
  local names = listed(KEYS[4], id, topic, '', tonumber(ARGV[8]) + 1)
  if #names > tonumber(ARGV[8]) then return {'many'} end
  for _, name in ipairs(names) do attempts(redis.call('HGET', KEYS[1], name), tell) end
end
if #found > 0 then return found end
local tomb = (ARGV[3] == 'k' and 'k' or 'a') .. at
local sequence = tonumber(ARGV[5])
local old = redis.call('HGET', KEYS[2], tomb)
if old then
  sequence = math.max(sequence, tonumber(string.match(old, '^%d+')))
elseif redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[7]) then
  local oldest = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  local stone = redis.call('HGET', KEYS[2], oldest)
  if stone and tonumber(string.match(stone, ':(%d+)$')) > tonumber(ARGV[9]) then return {'full'} end
  redis.call('ZREM', KEYS[3], oldest) -- nobody may have trimmed for long
  redis.call('HDEL', KEYS[2], oldest)
end
-- The order is by time, then by when it was laid within the millisecond.
local place = tonumber(ARGV[6]) * 4096
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
if last and tonumber(last) >= place then place = tonumber(last) + 1 end
redis.call('HSET', KEYS[2], tomb, string.format('%.0f:%s', sequence, ARGV[6]))
redis.call('ZADD', KEYS[3], string.format('%.0f', place), tomb)
return found
