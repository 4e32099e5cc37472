-- purge ends dead messages for good. Any instance may call it.
-- KEYS 1 dead  2 msg  3 ended  4 counts
-- ARGV 1 now in ms; then uids
-- Result: entry of the outbox; uids that were dead, or purged before; what the outbox got
-- Outbox: uid and record of each cancel.
-- Twice: the records tell that they were purged.
local done, log, size = {}, {}, 0
for i = 2, #ARGV do
  local uid = ARGV[i]
  local old = redis.call('HGET', KEYS[2], uid)
  local state = old and string.byte(old, 1) == 2 and sound(old) and string.byte(old, 2)
  if state and may(state, CANCELED, PURGED) then
    local packed = content(old)
    local record = canceled(packed, tonumber(ARGV[1]), string.byte(old, 3) % 2 == 1, because(PURGED, ''),
      version(old) + 1)
    redis.call('ZREM', KEYS[1], uid)
    redis.call('HSET', KEYS[2], uid, record)
    tally(topic(packed), 0, -1)
    done[#done + 1] = uid
    log[#log + 1] = uid
    log[#log + 1] = record
    size = size + #uid + #record
  elseif state and kind(old) == PURGED then
    done[#done + 1] = uid
  end
end
local entry = ''
if #log > 0 then
  local ended = {}
  for i = 1, #log, 2 do ended[#ended + 1] = log[i] end
  redis.call('RPUSH', KEYS[3], string.format('%013d', ARGV[1]) .. table.concat(ended))
  count(KEYS[4])
  if CONTEXT ~= '' then entry = note(#log / 2, size, unpack(log)) end
end
return {entry, done, log}
