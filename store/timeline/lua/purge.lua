-- purge ends dead messages for good. Any instance may call it.
-- KEYS dead msg ended counts
-- ARGV 1 now in ms; then uids
-- Result: entry of the outbox; uids that this call purged, or that were purged before; the outbox's fields
-- Outbox: uid and record of each cancel.
-- Twice: the records show that they were purged.
local done, log, size = {}, {}, 0
for i = 2, #ARGV do
  local uid = ARGV[i]
  local old = redis.call('HGET', MSG, uid)
  local ended = old and sound(old) and not live(old)
  if ended and may(state(old), STATE_CANCELED, KIND_PURGED) then
    local packed = content(old)
    local record = ending(STATE_CANCELED, packed, ARGV[1], doubtful(old), because(KIND_PURGED, ''), version(old) + 1,
      refused(old))
    redis.call('ZREM', DEAD, uid)
    redis.call('HSET', MSG, uid, record)
    tally(topic(packed), 0, -1)
    done[#done + 1] = uid
    push(log, uid, record)
    size = size + #uid + #record
  elseif ended and kind(old) == KIND_PURGED then
    done[#done + 1] = uid
  end
end
local entry = ''
if #log > 0 then
  local uids = {}
  for i = 1, #log, 2 do uids[#uids + 1] = log[i] end
  remember_end(ARGV[1], table.concat(uids))
  count()
  entry = note(#log / 2, size, unpack(log))
end
return {entry, done, log}
