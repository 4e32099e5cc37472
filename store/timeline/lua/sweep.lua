-- sweep moves what leaders of lower terms had claimed back to waiting, marked
-- uncertain.
-- KEYS 1 claimed  2 due  3 msg  4 term  5 mark
-- ARGV 1 term  2 limit
-- Result: how many were moved. Twice: it goes on where it stopped.
local stale = check(KEYS[4], ARGV[1])
if stale then return stale end
local uids, terms, claims = {}, {}, redis.call('HGETALL', KEYS[1]) -- bounded by what may be in flight
for i = 1, #claims, 2 do
  local term = tonumber(string.match(claims[i + 1], '^%d+'))
  if term and term < tonumber(ARGV[1]) then
    uids[#uids + 1] = claims[i]
    terms[claims[i]] = term
  end
end
table.sort(uids, function(a, b)
  if terms[a] ~= terms[b] then return terms[a] < terms[b] end
  return a < b
end)
for i = tonumber(ARGV[2]) + 1, #uids do uids[i] = nil end
for _, uid in ipairs(uids) do
  local packed = redis.call('HGET', KEYS[3], uid)
  redis.call('HDEL', KEYS[1], uid)
  if packed and string.byte(packed, 1) == 1 then
    local mark = redis.call('HGET', KEYS[5], uid)
    local refusals = mark and string.match(mark, '^%d+:(%d+):') or '0'
    redis.call('ZADD', KEYS[2], score(packed), uid)
    redis.call('HSET', KEYS[5], uid, '1:' .. refusals .. ':')
  end
end
return #uids
