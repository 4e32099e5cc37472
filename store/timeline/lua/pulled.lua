-- pulled counts messages for pull. It writes nothing.
-- ARGV 1 how many times; then the times in ms; then topics
-- Result: for each topic that it reached: how many of its messages are leased, how many stand behind another one of
--      their key, and how many of the others are due by each time, joined by blanks
-- It stops after 500 counts.
local times, result, spent = tonumber(ARGV[1]), {}, 0
for i = 2 + times, #ARGV do
  if spent >= 500 then break end
  local chained = redis.call('HGET', string.sub(GEN, 1, -4) .. 'chained', ARGV[i])
  local counts = {redis.call('ZCARD', leases_of(ARGV[i])), chained or '0'}
  for j = 1, times do counts[j + 2] = 0 end
  stretches(queue(ARGV[i]), function(_, base)
    for j = 1, times do
      counts[j + 2] = counts[j + 2] + redis.call('ZCOUNT', queue(ARGV[i]), string.format('%.0f', base),
        string.format('%.0f', base + tonumber(ARGV[1 + j])))
    end
    spent = spent + times
    return false
  end)
  spent = spent + 1
  result[#result + 1] = table.concat(counts, ' ')
end
return result
