-- certified stands before every script that reads or writes messages: on a data set that is not certified nothing takes
-- effect. After its own keys such a script receives outbox, outboxed and gen, and term during a leader's recovery. Two
-- arguments are removed from the end, so that the scripts see only their own.
-- ARGV ... context of an entry, '' if no outbox is kept;
--      number of the certification that the caller knows, or '!' and the data set
--      that the leader is about to certify; during a recovery, then a blank
--      and the leader's term
-- It returns the error UNCERTIFIED with number and data set of the certification, and the data set that answers; or
-- STALE if the bucket knows a higher term. It does not raise a lower term or write a missing one, as begin does: a
-- missing term lets certify recognize a store that was emptied.
local token = table.remove(ARGV)
local blank = string.find(token, ' ', 1, true)
if blank then
  local stored, term = redis.call('GET', KEYS[#KEYS]), string.sub(token, blank + 1)
  if stored and tonumber(stored) > tonumber(term) then
    return redis.error_reply('STALE stored term ' .. stored .. ', given ' .. term)
  end
  token = string.sub(token, 1, blank - 1)
end
local CONTEXT = table.remove(ARGV)
local recovering = string.byte(token) == 33
local number, certified, doubt, phase, doubt_pull =
  string.match(redis.call('GET', GEN) or '', '^(%d+) (%x+) (%d+) (%a+) ?(%d*)$')
local run = certified and same(certified) and certified
if not (recovering and same(string.sub(token, 2)) or run and number == token) then
  return redis.error_reply('UNCERTIFIED ' .. (number or '0') .. ' ' .. (certified or '-') .. ' ' .. (run or present()))
end
doubt, doubt_pull = tonumber(doubt or '0'), tonumber(doubt_pull or '') or 0
