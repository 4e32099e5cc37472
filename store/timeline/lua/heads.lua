-- heads reads the head of a bucket. It writes nothing.
-- KEYS due claimed term
-- Result: earliest score or '', how many wait, how many are claimed, term or ''
return {
  head(DUE) or '',
  tostring(redis.call('ZCARD', DUE)),
  tostring(math.max(redis.call('HLEN', CLAIMED) - 1, 0)), -- less the one field that is not a claim
  redis.call('GET', TERM) or '',
}
