-- counts returns how many live and how many dead messages each of the topics has. It writes nothing.
-- KEYS counts
-- ARGV topics
-- Result: for each its value: how many live, or if any are dead both
--      numbers, '' for none
local found = {}
each(#ARGV, 2000, function(from, to)
  local held = redis.call('HMGET', COUNTS, unpack(ARGV, from, to))
  for i = from, to do found[i] = held[i - from + 1] or '' end
end)
return found
