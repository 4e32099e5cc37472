-- trim forgets expired ends and tombstones, oldest first.
-- KEYS ended msg name term tomb tombs names trimmed
-- ARGV 1 term  2 forget ends up to this time in ms  3 limit  4 forget tombstones up to this time
--      5 how far, in ms, the clocks of instances may differ
-- Result: how many ends were forgotten. Twice: it continues where it stopped.
local stale = check(ARGV[1])
if stale then return stale end
local left = tonumber(ARGV[3])
-- An end whose entry still waits for the journal is not forgotten: until then only this bucket knows it. Ends and
-- entries have the same order, and both carry the time of the instance that made them. While the oldest entry is
-- damaged and carries no time, no end is forgotten.
local until_, waits = tonumber(ARGV[2]), redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', 1)[1]
if waits then until_ = math.min(until_, (made(waits) or 0) - tonumber(ARGV[5])) end
local gone, last = {}, 0
while left > 0 do
  local entry = redis.call('LINDEX', ENDED, 0)
  if not entry or tonumber(string.sub(entry, 1, 13)) > until_ then break end
  redis.call('LPOP', ENDED)
  last = math.max(last, tonumber(string.sub(entry, 1, 13)))
  local n = math.min(left, (#entry - 13) / 18)
  for i = 0, n - 1 do gone[#gone + 1] = string.sub(entry, 14 + 18 * i, 31 + 18 * i) end
  if 13 + 18 * n < #entry then
    redis.call('LPUSH', ENDED, string.sub(entry, 1, 13) .. string.sub(entry, 14 + 18 * n))
  end
  left = left - math.max(n, 1) -- a change of the number of buckets leaves entries without uids
end
if last > tonumber(redis.call('GET', TRIMMED) or '0') then redis.call('SET', TRIMMED, string.format('%.0f', last)) end
each(#gone, 1000, function(from, to)
  local records = redis.call('HMGET', MSG, unpack(gone, from, to))
  for i = from, to do
    local record = records[i - from + 1]
    local packed = record and sound(record) and not live(record) and content(record)
    if packed and string.byte(packed, 2) % 2 == 1 then unname(packed, gone[i]) end
  end
  redis.call('HDEL', MSG, unpack(gone, from, to))
end)
local old = {}
for _, field in ipairs(redis.call('ZRANGE', TOMBS, 0, tonumber(ARGV[3]) - 1)) do
  local tomb = redis.call('HGET', TOMB, field)
  if tomb and tonumber(string.match(tomb, ':(%d+)$') or '0') > tonumber(ARGV[4]) then break end
  old[#old + 1] = field
end
each(#old, 1000, function(from, to)
  redis.call('ZREM', TOMBS, unpack(old, from, to))
  redis.call('HDEL', TOMB, unpack(old, from, to))
end)
return #gone
