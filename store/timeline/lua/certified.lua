-- certified stands before every script that sees messages: on a server run that
-- is not certified nothing takes effect. It takes its own keys and arguments
-- off the end, so that the scripts count from the front as if it were not there.
-- KEYS ... outbox, outboxed, gen
-- ARGV ... context of an entry, '' where no outbox is kept;
--      number of the certification that the caller knows, or '!' and the run id
--      that the leader is about to certify
-- It answers the error UNCERTIFIED, number and run of the certification, run of
-- the server.
local token = table.remove(ARGV)
local CONTEXT = table.remove(ARGV)
local GEN, OUTBOXED, OUTBOX = table.remove(KEYS), table.remove(KEYS), table.remove(KEYS)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local number, certified, doubt, phase = string.match(redis.call('GET', GEN) or '', '^(%d+) (%x+) (%d+) (%a+)$')
if token ~= '!' .. run and (certified ~= run or number ~= token) then
  return redis.error_reply('UNCERTIFIED ' .. (number or '0') .. ' ' .. (certified or '-') .. ' ' .. run)
end
doubt = tonumber(doubt or '0')
