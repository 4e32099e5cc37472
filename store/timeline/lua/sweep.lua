-- sweep moves what leaders of lower terms, and earlier runs of this one, had
-- claimed back to waiting, marked uncertain.
-- KEYS 1 claimed  2 due  3 msg  4 term  5 mark  6 next  7 ended  8 counts  9 name  10 names
--      11 refused
-- ARGV 1 term  2 limit  3 this term's claims up to this number go too, or 'all'  4 now in ms
--      5 prefix of the bucket's lanes
-- Result: how many were moved; entry of the outbox; what it got
-- Where another push stands as the next one under a message's name, one of the two
-- ends (lib.lua, comeback). What cannot be read is claimed no more and stands in no
-- order.
-- Outbox: uid; due, eight bytes, and mark of each; uid and record of those that ended.
-- Twice: it goes on where it stopped.
local stale = check(KEYS[4], ARGV[1])
if stale then return stale end
local uids, terms, claims = {}, {}, redis.call('HGETALL', KEYS[1]) -- bounded by what may be in flight
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
local k = redis.call('EXISTS', KEYS[6]) == 1 and
  {claimed = KEYS[1], due = KEYS[2], msg = KEYS[3], mark = KEYS[5], next = KEYS[6], ended = KEYS[7],
    name = KEYS[9], names = KEYS[10], refused = KEYS[11], parked = ARGV[5]}
for _, uid in ipairs(uids) do
  local packed = redis.call('HGET', KEYS[3], uid)
  redis.call('HDEL', KEYS[1], uid)
  local from = packed and standing(packed, IN_FLIGHT)
  if from == 0 then
    refuse(KEYS[11], uid, 0, WAITING, PLAIN, ARGV[4], packed)
  elseif from and not may(from, WAITING, SWEPT) then
    refuse(KEYS[11], uid, from, WAITING, SWEPT, ARGV[4]) -- the claim was all that was wrong with it
  elseif packed then
    local mark = redis.call('HGET', KEYS[5], uid)
    local refusals, before = numbers(mark), changes(mark)
    redis.call('HDEL', KEYS[5], uid)
    local ended = k and comeback(k, uid, packed, true, mark, ARGV[4], log)
    if ended then
      tally(topic(packed), -1)
    else
      mark = '1:' .. refusals .. ':' .. string.format('%.0f', before + 1) .. ':'
      redis.call('ZADD', KEYS[2], score(packed), uid)
      redis.call('HSET', KEYS[5], uid, mark)
      log[#log + 1] = uid
      log[#log + 1] = string.sub(packed, 4, 11) .. mark
    end
  end
end
count(KEYS[8])
local entry, size = '', 0
if CONTEXT ~= '' and #log > 0 then
  for _, field in ipairs(log) do size = size + #field end
  entry = note(#log / 2, size, unpack(log))
end
return {tostring(#uids), entry, log}
