-- totals counts what a bucket holds. It writes nothing.
-- KEYS 1 due  2 claimed  3 dead  4 lanes
-- ARGV 1 prefix of the bucket's lanes  2 highest score that is due
--      then pairs: what a hold's lanes begin with, number of the hold
-- Result: how many are claimed, how many are dead, then for each of four holds how
--      many wait, how many of them are due, earliest of their own places or ''
-- What waits in a lane was due when it came there. It may stand later than its own
-- place, which is in the lane's other ZSET then: so no message is looked at.
local held = {}
for i = 0, 3 do held[i] = {0, 0, false} end
local function earliest(h, key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if first and (not h[3] or tonumber(first) < tonumber(h[3])) then h[3] = first end
end
held[0] = {redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[2]), false}
earliest(held[0], KEYS[1])
for _, lane in ipairs(redis.call('SMEMBERS', KEYS[4])) do
  local hold = 1
  for i = 3, #ARGV, 2 do
    if string.sub(lane, 1, #ARGV[i]) == ARGV[i] then hold = tonumber(ARGV[i + 1]) end
  end
  local h, n = held[hold], redis.call('ZCARD', ARGV[1] .. lane)
  h[1], h[2] = h[1] + n, h[2] + n
  earliest(h, ARGV[1] .. lane)
  earliest(h, behind(ARGV[1], lane))
end
local told = {
  tostring(math.max(redis.call('HLEN', KEYS[2]) - 1, 0)), -- less the one field that is no claim
  tostring(redis.call('ZCARD', KEYS[3])),
}
for i = 0, 3 do
  told[#told + 1] = tostring(held[i][1])
  told[#told + 1] = tostring(held[i][2])
  told[#told + 1] = held[i][3] or ''
end
return told
