-- certified stands before every script that sees messages: on a data set that
-- is not certified nothing takes effect. It takes its own keys and arguments
-- off the end, so that the scripts count from the front as if it were not there.
-- KEYS ... outbox, outboxed, gen; and term where the leader recovers
-- ARGV ... context of an entry, '' where no outbox is kept;
--      number of the certification that the caller knows, or '!' and the data set
--      that the leader is about to certify; of a leader that recovers, then a blank
--      and its term
-- It answers the error UNCERTIFIED, number and data set of the certification, and
-- the data set that answers; or STALE where the bucket knows a higher term. A lower
-- one stays: begin raises it, and where it is gone since the store was emptied.
local token = table.remove(ARGV)
local blank = string.find(token, ' ', 1, true)
if blank then
  local stored, term = redis.call('GET', table.remove(KEYS)), string.sub(token, blank + 1)
  if stored and tonumber(stored) > tonumber(term) then
    return redis.error_reply('STALE stored term ' .. stored .. ', given ' .. term)
  end
  token = string.sub(token, 1, blank - 1)
end
local CONTEXT = table.remove(ARGV)
local GEN, OUTBOXED, OUTBOX = table.remove(KEYS), table.remove(KEYS), table.remove(KEYS)
local recovering = string.byte(token) == 33
local number, certified, doubt, phase = string.match(redis.call('GET', GEN) or '', '^(%d+) (%x+) (%d+) (%a+)$')
local run = certified and same(certified) and certified
if not (recovering and same(string.sub(token, 2)) or run and number == token) then
  return redis.error_reply('UNCERTIFIED ' .. (number or '0') .. ' ' .. (certified or '-') .. ' ' .. (run or present()))
end
doubt = tonumber(doubt or '0')
