-- totals counts what a bucket holds. It writes nothing.
-- KEYS due claimed dead lanes pull lease
-- ARGV 1 highest score that is due; then pairs: prefix of a hold's lanes, number of the hold
-- Result: how many are claimed, how many are leased, how many are dead, the earliest place that is not due yet or '',
--      then for each of five holds how many wait, how many of them are due, earliest of their own places or ''
-- A message in a lane was due when it entered the lane. It may stand later than its own place, which is then in the
-- lane's second ZSET: so no message needs to be read.
local held, next = {}, false
for i = 0, 3 do held[i] = {0, 0, false} end
local function earliest(h, key)
  local first = head(key)
  if first and (not h[3] or tonumber(first) < tonumber(h[3])) then h[3] = first end
end
for h, key in pairs({[0] = DUE, [4] = PULL}) do
  held[h] = {redis.call('ZCARD', key), redis.call('ZCOUNT', key, '-inf', ARGV[1]), false}
  earliest(held[h], key)
  local later = redis.call('ZRANGEBYSCORE', key, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if later and (not next or tonumber(later) < tonumber(next)) then next = later end
end
for _, lane in ipairs(redis.call('SMEMBERS', LANES)) do
  local hold = 1
  for i = 2, #ARGV, 2 do
    if string.sub(lane, 1, #ARGV[i]) == ARGV[i] then hold = tonumber(ARGV[i + 1]) end
  end
  local h, n = held[hold], redis.call('ZCARD', parked(lane))
  h[1], h[2] = h[1] + n, h[2] + n
  earliest(h, parked(lane))
  earliest(h, behind(lane))
end
local counts = {
  tostring(math.max(redis.call('HLEN', CLAIMED) - 1, 0)), -- less the one field that is not a claim
  tostring(math.max(redis.call('HLEN', LEASE) - 1, 0)),
  tostring(redis.call('ZCARD', DEAD)),
  next or '',
}
for i = 0, 4 do
  push(counts, tostring(held[i][1]), tostring(held[i][2]))
  counts[#counts + 1] = held[i][3] or ''
end
return counts
