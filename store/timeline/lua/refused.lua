-- refused lists the refused steps. It forgets the steps of messages that are gone, have changed their state, or were
-- mended.
-- KEYS refused msg claimed lease
-- Result: uid, and the step and time, of each. Twice: forgotten steps are gone.
local all, over = {}, {}
local noted = redis.call('HGETALL', REFUSED)
for i = 1, #noted, 2 do
  local uid, step = noted[i], noted[i + 1]
  local record = redis.call('HGET', MSG, uid)
  local from, hash = string.match(step, '^(%d+):%d+:%d+:%d+:?(%x*)$')
  local stands = false
  if record and hash == '' then
    stands = standing(record, holder(uid, record) and STATE_IN_FLIGHT or STATE_WAITING) == tonumber(from)
  elseif record then
    stands = redis.sha1hex(record) == hash
  end
  if stands then
    push(all, uid, step)
  else
    over[#over + 1] = uid
  end
end
if #over > 0 then redis.call('HDEL', REFUSED, unpack(over)) end
return all
