-- heads looks at a bucket. It writes nothing.
-- KEYS 1 due  2 claimed  3 term
-- Result: earliest score or '', how many wait, how many are claimed, term or ''
local claimed = redis.call('HLEN', KEYS[2])
return {
  redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '',
  tostring(redis.call('ZCARD', KEYS[1])),
  tostring(math.max(claimed - 1, 0)), -- less the one field that is no claim
  redis.call('GET', KEYS[3]) or '',
}
