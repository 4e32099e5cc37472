-- certify declares that a bucket may be used on this data set of the server.
-- KEYS gen term counts trimmed
-- ARGV 1 term  2 data set  3 number  4 doubt until, in ms  5 'filling', 'whole' or 'audited'
--      6 number that the leader last read, '0' for none
--      7 ends up to this time are not known here, '0' if the bucket was not filled
--      8 doubt until for messages that consumers pull
-- Result: OK, or the error UNCERTIFIED if another data set answers, the stored term is not ARGV 1,
--      or the stored number is neither ARGV 6 nor ARGV 3, or higher than ARGV 3; STALE if the stored
--      term is higher.
--      Twice: the same is written.
-- The term must be there: the leader wrote it when it began, and a server that was emptied since then has lost it.
local term = redis.call('GET', TERM)
if term and tonumber(term) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE stored term ' .. term .. ', given ' .. ARGV[1])
end
local number = string.match(redis.call('GET', GEN) or '', '^%d+')
number = number or '0'
if term ~= ARGV[1] or not same(ARGV[2]) or (number ~= ARGV[6] and number ~= ARGV[3])
  or tonumber(number) > tonumber(ARGV[3]) then
  return redis.error_reply('UNCERTIFIED ' .. number .. ' - ' .. present())
end
redis.call('DEL', GEN) -- so that a full Redis does not refuse it
redis.call('SET', GEN, table.concat({ARGV[3], present(), ARGV[4], ARGV[5], ARGV[8]}, ' '))
if tonumber(ARGV[7]) > tonumber(redis.call('GET', TRIMMED) or '0') then redis.call('SET', TRIMMED, ARGV[7]) end
redis.call('HSETNX', COUNTS, '', string.rep('-', 65)) -- see doc.go: it keeps the hash from being a list
return redis.status_reply('OK')
