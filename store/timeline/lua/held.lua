-- held lists the claims of a term by uid, ascending. Their number is bounded by the limit of messages in flight.
-- KEYS claimed term
-- ARGV 1 term, '' for those of every term  2 uid to start after, ''  3 limit
-- Result: uid and number of the claim, for each.
local stale = ARGV[1] ~= '' and check(ARGV[1])
if stale then return stale end
local uids, number, claims = {}, {}, redis.call('HGETALL', CLAIMED)
for i = 1, #claims, 2 do
  local term, n = string.match(claims[i + 1], '^(%d+):(%d+)$')
  if term and (ARGV[1] == '' or term == ARGV[1]) and claims[i] > ARGV[2] then
    uids[#uids + 1] = claims[i]
    number[claims[i]] = n
  end
end
table.sort(uids)
local held = {}
for i = 1, math.min(tonumber(ARGV[3]), #uids) do
  held[2 * i - 1] = uids[i]
  held[2 * i] = number[uids[i]]
end
return held
