-- bury leaves a tombstone for a client id that names no message on a topic in this bucket.
-- KEYS name tomb tombs names
-- ARGV 1 id  2 topic  3 'k' if a key is given  4 key  5 sequence  6 now in ms  7 limit
--      8 how many keys at most  9 tombstones of this time or before, in ms, have expired
-- Result: uids under that name; if there are any, no tombstone is left. 'many' alone if
--      the id has more than ARGV 8 keys, 'full' alone if there is no room for another
--      tombstone: each existing one was promised to its caller.
-- Twice: the tombstone is renewed.
local found, id, topic = {}, ARGV[1], ARGV[2]
local function collect(uid) found[#found + 1] = uid end
local at = field(id, topic, ARGV[4])
if ARGV[3] == 'k' then
  attempts(redis.call('HGET', NAME, at), collect)
else
  local names = listed(id, topic, '', tonumber(ARGV[8]) + 1)
  if #names > tonumber(ARGV[8]) then return {'many'} end
  for _, name in ipairs(names) do attempts(redis.call('HGET', NAME, name), collect) end
end
if #found > 0 then return found end
local tomb = (ARGV[3] == 'k' and 'k' or 'a') .. at
local sequence = tonumber(ARGV[5])
local old = redis.call('HGET', TOMB, tomb)
if old then
  sequence = math.max(sequence, tonumber(string.match(old, '^%d+')))
elseif redis.call('ZCARD', TOMBS) >= tonumber(ARGV[7]) then
  local oldest = redis.call('ZRANGE', TOMBS, 0, 0)[1]
  local stone = redis.call('HGET', TOMB, oldest)
  if stone and tonumber(string.match(stone, ':(%d+)$')) > tonumber(ARGV[9]) then return {'full'} end
  redis.call('ZREM', TOMBS, oldest) -- Trim may not have run for a long time
  redis.call('HDEL', TOMB, oldest)
end
-- Tombstones are ordered by time, and within a millisecond by arrival.
local place = tonumber(ARGV[6]) * 4096
local last = redis.call('ZRANGE', TOMBS, -1, -1, 'WITHSCORES')[2]
if last and tonumber(last) >= place then place = tonumber(last) + 1 end
redis.call('HSET', TOMB, tomb, string.format('%.0f:%s', sequence, ARGV[6]))
redis.call('ZADD', TOMBS, string.format('%.0f', place), tomb)
return found
