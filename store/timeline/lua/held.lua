-- held lists the uids that a term has claimed, ascending; claims are bounded by
-- what may be in flight.
-- KEYS 1 claimed  2 term
-- ARGV 1 term  2 uid to start after, ''  3 limit
-- Result: uids.
local stale = check(KEYS[2], ARGV[1])
if stale then return stale end
local held, claims = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #claims, 2 do
  if claims[i + 1] == ARGV[1] and claims[i] > ARGV[2] then held[#held + 1] = claims[i] end
end
table.sort(held)
for i = tonumber(ARGV[3]) + 1, #held do held[i] = nil end
return held
