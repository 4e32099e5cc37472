-- certify says that a bucket may be used on this run of the server.
-- KEYS 1 gen  2 term  3 counts
-- ARGV 1 term  2 run id  3 number  4 doubt until, in ms  5 'filling' or 'whole'
-- Result: OK, or the error UNCERTIFIED where another run answers, the term does not
--      stand, or a higher number does. Twice: the same is written.
-- The term must stand: what took the claims back wrote it, and a server that was
-- emptied since has lost it.
local term = redis.call('GET', KEYS[2])
if term and tonumber(term) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE stored term ' .. term .. ', given ' .. ARGV[1])
end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local number = string.match(redis.call('GET', KEYS[1]) or '', '^%d+')
if term ~= ARGV[1] or run ~= ARGV[2] or (number and tonumber(number) > tonumber(ARGV[3])) then
  return redis.error_reply('UNCERTIFIED ' .. (number or '0') .. ' - ' .. run)
end
redis.call('DEL', KEYS[1]) -- so that a full Redis does not refuse it
redis.call('SET', KEYS[1], table.concat({ARGV[3], ARGV[2], ARGV[4], ARGV[5]}, ' '))
redis.call('HSETNX', KEYS[3], '', string.rep('-', 65)) -- see doc.go: it keeps the hash from being a list
return redis.status_reply('OK')
