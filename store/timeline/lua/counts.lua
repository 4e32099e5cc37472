-- counts returns how many live and how many dead messages each of the topics has. It writes nothing.
-- KEYS counts leasing
-- ARGV topics
-- Result: for each its value: how many live, or if any are dead both
--      numbers, '' for none; and how many are leased
local found = {}
each(#ARGV, 2000, function(from, to)
  local held = redis.call('HMGET', COUNTS, unpack(ARGV, from, to))
  local leases = redis.call('ZMSCORE', LEASING, unpack(ARGV, from, to))
  for i = from, to do
    local n = leases[i - from + 1] and redis.call('ZCARD', leases_of(ARGV[i])) or 0
    push(found, held[i - from + 1] or '', tostring(n))
  end
end)
return found
