-- lag returns the size of the outbox. It writes nothing.
-- KEYS quarantine
-- Result: entries, changes, bytes, when the oldest entry was made or '' (if it does
--      not say, when it was written), quarantined entries
local held = redis.call('HMGET', OUTBOXED, 'changes', 'bytes')
local oldest = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', 1)[1]
local since = oldest and (made(oldest) or tonumber(string.match(oldest[1], '^%d+')))
return {tostring(redis.call('XLEN', OUTBOX)), held[1] or '0', held[2] or '0',
  since and string.format('%.0f', since) or '', tostring(redis.call('XLEN', QUARANTINE))}
