-- trim forgets ends and tombstones past their time, oldest first.
-- KEYS 1 ended  2 msg  3 name  4 term  5 tomb  6 tombs  7 names  8 trimmed
-- ARGV 1 term  2 ends up to this time in ms go  3 limit  4 tombstones up to this time go
--      5 how far, in ms, the clocks of those who end messages may be apart
-- Result: how many ends were forgotten. Twice: it goes on where it stopped.
local stale = check(KEYS[4], ARGV[1])
if stale then return stale end
local left, count = tonumber(ARGV[3]), 0
-- An end whose entry still waits for the journal is not forgotten: until then only
-- this bucket knows it. Ends and entries stand in one order, and both tell the time
-- of who made them. While the oldest entry is damaged and does not, nothing is.
local until_, waits = tonumber(ARGV[2]), redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', 1)[1]
if waits then until_ = math.min(until_, (made(waits) or 0) - tonumber(ARGV[5])) end
local gone, last = {}, 0
while left > 0 do
  local entry = redis.call('LINDEX', KEYS[1], 0)
  if not entry or tonumber(string.sub(entry, 1, 13)) > until_ then break end
  redis.call('LPOP', KEYS[1])
  last = math.max(last, tonumber(string.sub(entry, 1, 13)))
  local n = math.min(left, (#entry - 13) / 18)
  for i = 0, n - 1 do gone[#gone + 1] = string.sub(entry, 14 + 18 * i, 31 + 18 * i) end
  if 13 + 18 * n < #entry then
    redis.call('LPUSH', KEYS[1], string.sub(entry, 1, 13) .. string.sub(entry, 14 + 18 * n))
  end
  left = left - n
end
if last > tonumber(redis.call('GET', KEYS[8]) or '0') then redis.call('SET', KEYS[8], string.format('%.0f', last)) end
each(#gone, 1000, function(from, to)
  local records = redis.call('HMGET', KEYS[2], unpack(gone, from, to))
  for i = from, to do
    local record = records[i - from + 1]
    local packed = record and string.byte(record, 1) == 2 and sound(record) and content(record)
    if packed and string.byte(packed, 2) % 2 == 1 then unname(KEYS[3], KEYS[7], packed, gone[i]) end
  end
  redis.call('HDEL', KEYS[2], unpack(gone, from, to))
end)
local old = {}
for _, field in ipairs(redis.call('ZRANGE', KEYS[6], 0, tonumber(ARGV[3]) - 1)) do
  local tomb = redis.call('HGET', KEYS[5], field)
  if tomb and tonumber(string.match(tomb, ':(%d+)$') or '0') > tonumber(ARGV[4]) then break end
  old[#old + 1] = field
end
each(#old, 1000, function(from, to)
  redis.call('ZREM', KEYS[6], unpack(old, from, to))
  redis.call('HDEL', KEYS[5], unpack(old, from, to))
end)
return #gone
