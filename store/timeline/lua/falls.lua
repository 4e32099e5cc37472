-- falls counts the messages that nothing holds back, and those for pull, by when they are due. It writes nothing.
-- KEYS due pull
-- ARGV scores, ascending
-- Result: for each score but the last: how many messages have it, or one below the next
local counts = {}
for i = 1, #ARGV - 1 do
  counts[i] = tostring(redis.call('ZCOUNT', DUE, ARGV[i], '(' .. ARGV[i + 1])
    + redis.call('ZCOUNT', PULL, ARGV[i], '(' .. ARGV[i + 1]))
end
return counts
