-- lag tells what stands in the outbox. It writes nothing.
-- Result: entries, changes, bytes, id of the oldest entry or ''
local held = redis.call('HMGET', OUTBOXED, 'changes', 'bytes')
local oldest = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', 1)[1]
return {tostring(redis.call('XLEN', OUTBOX)), held[1] or '0', held[2] or '0', oldest and oldest[1] or ''}
