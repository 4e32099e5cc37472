-- counts returns how many messages of topics live and how many are dead. It writes
-- nothing.
-- KEYS 1 counts
-- ARGV topics
-- Result: for each what stands there: how many live, or where any are dead both
--      numbers, '' for none
local found = {}
each(#ARGV, 2000, function(from, to)
  local held = redis.call('HMGET', KEYS[1], unpack(ARGV, from, to))
  for i = from, to do found[i] = held[i - from + 1] or '' end
end)
return found
