-- heads reads the head of a bucket. It writes nothing.
-- KEYS due claimed term leasing expires
-- Result: earliest score or '', how many wait, how many are claimed, term or '', when something may be over or ''
return {
  head(DUE) or '',
  tostring(redis.call('ZCARD', DUE)),
  tostring(math.max(redis.call('HLEN', CLAIMED) - 1, 0)), -- less the one field that is not a claim
  redis.call('GET', TERM) or '',
  first_over(),
}
