-- quarantine moves an entry that the journal cannot hold out of the outbox.
-- KEYS quarantine
-- ARGV 1 id of the entry  2 when, in ms  3 why  4 '1' if the journal knows the states since, else '0'
--      5 uids, one after the other  6 how many entries may be there
-- Result: how many were moved, or the error QUARANTINED if it is full.
--      Twice: the second time the outbox has none.
-- It keeps the fields of the entry unchanged, up to 64 KiB: they show what happened, and the messages themselves are in
-- msg.
local entry = redis.call('XRANGE', OUTBOX, ARGV[1], ARGV[1])[1]
if not entry then return 0 end
local there = redis.call('XLEN', QUARANTINE)
if there >= tonumber(ARGV[6]) then return redis.error_reply('QUARANTINED entries are ' .. there) end
local kept, room = {}, 65536
for i = 1, math.min(#entry[2], 1000) do
  kept[i] = string.sub(entry[2][i], 1, room)
  room = room - #kept[i]
end
-- The size in a damaged entry may be wrong; it must not make a sum negative.
local size, n = counted(entry)
local held = redis.call('HMGET', OUTBOXED, 'bytes', 'changes')
size, n = math.min(size, tonumber(held[1] or '0')), math.min(n, tonumber(held[2] or '0'))
redis.call('XDEL', OUTBOX, ARGV[1]) -- a removal, so that a full Redis lets it continue
if redis.call('XLEN', OUTBOX) == 0 then
  redis.call('DEL', OUTBOXED)
else
  redis.call('HINCRBY', OUTBOXED, 'bytes', string.format('%.0f', 0 - size)) -- not -0
  redis.call('HINCRBY', OUTBOXED, 'changes', string.format('%.0f', 0 - n))
end
redis.call('XADD', QUARANTINE, '*', 'entry', ARGV[1], 'at', ARGV[2], 'why', ARGV[3], 'known', ARGV[4], 'uids', ARGV[5],
  unpack(kept))
return 1
