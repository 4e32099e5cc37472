-- certify says that a bucket may be used on this data set of the server.
-- KEYS 1 gen  2 term  3 counts  4 trimmed
-- ARGV 1 term  2 data set  3 number  4 doubt until, in ms  5 'filling' or 'whole'
--      6 number that stood when the leader looked, '0' for none
--      7 ends up to this time are not known here, '0' where nothing was filled
-- Result: OK, or the error UNCERTIFIED where another data set answers, or the term or
--      that number does not stand. Twice: the same is written.
-- Both must stand: the leader wrote the term when it began, and a server that was
-- emptied since it looked has lost one or the other.
local term = redis.call('GET', KEYS[2])
if term and tonumber(term) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE stored term ' .. term .. ', given ' .. ARGV[1])
end
local number = string.match(redis.call('GET', KEYS[1]) or '', '^%d+')
number = number or '0'
if term ~= ARGV[1] or not same(ARGV[2]) or (number ~= ARGV[6] and number ~= ARGV[3])
  or tonumber(number) > tonumber(ARGV[3]) then
  return redis.error_reply('UNCERTIFIED ' .. number .. ' - ' .. present())
end
redis.call('DEL', KEYS[1]) -- so that a full Redis does not refuse it
redis.call('SET', KEYS[1], table.concat({ARGV[3], present(), ARGV[4], ARGV[5]}, ' '))
if tonumber(ARGV[7]) > tonumber(redis.call('GET', KEYS[4]) or '0') then redis.call('SET', KEYS[4], ARGV[7]) end
redis.call('HSETNX', KEYS[3], '', string.rep('-', 65)) -- see doc.go: it keeps the hash from being a list
return redis.status_reply('OK')
