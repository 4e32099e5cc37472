-- sweep moves back to waiting, marked uncertain, the messages that leaders of lower terms, or earlier runs of this one,
-- had claimed.
-- KEYS claimed due msg term mark next ended counts name names refused pull pulls lease expires
-- ARGV 1 term  2 limit  3 also this term's claims up to this number, or 'all'  4 now in ms
-- Result: how many were moved; entry of the outbox; its fields
-- If another push stands as the next one under a message's name, one of the two ends (lib.lua, comeback). A message
-- that cannot be read loses its claim and enters no order.
-- Outbox: uid; due, eight bytes, and mark of each; uid and record of those that ended.
-- Twice: it continues where it stopped.
local stale = check(ARGV[1])
if stale then return stale end
local uids, terms, claims = {}, {}, redis.call('HGETALL', CLAIMED) -- bounded by the limit of messages in flight
for i = 1, #claims, 2 do
  local term, number = string.match(claims[i + 1], '^(%d+):(%d+)$')
  term = tonumber(term)
  if term and (term < tonumber(ARGV[1]) or ARGV[3] == 'all' or tonumber(number) <= tonumber(ARGV[3])) then
    uids[#uids + 1] = claims[i]
    terms[claims[i]] = term
  end
end
table.sort(uids, function(a, b)
  if terms[a] ~= terms[b] then return terms[a] < terms[b] end
  return a < b
end)
for i = tonumber(ARGV[2]) + 1, #uids do uids[i] = nil end
local log = {}
local nexts = redis.call('EXISTS', NEXT) == 1
for _, uid in ipairs(uids) do
  local packed = redis.call('HGET', MSG, uid)
  redis.call('HDEL', CLAIMED, uid)
  local from = packed and standing(packed, STATE_IN_FLIGHT)
  if from == STATE_NONE then
    refuse(uid, STATE_NONE, STATE_WAITING, KIND_PLAIN, ARGV[4], packed)
  elseif from and not may(from, STATE_WAITING, KIND_SWEPT) then
    refuse(uid, from, STATE_WAITING, KIND_SWEPT, ARGV[4]) -- only its claim was wrong
  elseif packed then
    local mark = redis.call('HGET', MARK, uid)
    local refusals, before = numbers(mark), changes(mark)
    redis.call('HDEL', MARK, uid)
    if not (nexts and comeback(uid, packed, true, mark, ARGV[4], log)) then
      mark = '1:' .. refusals .. ':' .. string.format('%.0f', before + 1) .. ':'
      redis.call('ZADD', DUE, score(packed), uid)
      redis.call('HSET', MARK, uid, mark)
      push(log, uid, string.sub(packed, 4, 11) .. mark)
    end
  end
end
count()
local entry, size = '', 0
if #log > 0 then
  for _, field in ipairs(log) do size = size + #field end
  entry = note(#log / 2, size, unpack(log))
end
return {tostring(#uids), entry, log}
