-- lag returns how much stands in the outbox. It writes nothing.
-- KEYS 1 quarantine
-- Result: entries, changes, bytes, when the oldest entry was made or '' (where it does
--      not say, when it was written), entries that are quarantined
local held = redis.call('HMGET', OUTBOXED, 'changes', 'bytes')
local oldest = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', 1)[1]
local since = oldest and (made(oldest) or tonumber(string.match(oldest[1], '^%d+')))
return {tostring(redis.call('XLEN', OUTBOX)), held[1] or '0', held[2] or '0',
  since and string.format('%.0f', since) or '', tostring(redis.call('XLEN', KEYS[1]))}
