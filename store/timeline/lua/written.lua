-- written removes entries of the outbox whose changes are in the journal.
-- ARGV for each entry: "id size changes", as note returned it
-- Result: how many were removed. Twice: the second time there are none.
local size, n, gone = 0, 0, 0
for _, entry in ipairs(ARGV) do
  local id, bytes, changes = string.match(entry, '^(%S+) (%d+) (%d+)$')
  if redis.call('XDEL', OUTBOX, id) == 1 then
    size, n, gone = size + tonumber(bytes), n + tonumber(changes), gone + 1
  end
end
if gone == 0 then return 0 end
if redis.call('XLEN', OUTBOX) == 0 then
  redis.call('DEL', OUTBOXED)
else
  redis.call('HINCRBY', OUTBOXED, 'bytes', string.format('%.0f', -size))
  if n > 0 then redis.call('HINCRBY', OUTBOXED, 'changes', string.format('%.0f', -n)) end
end
return gone
