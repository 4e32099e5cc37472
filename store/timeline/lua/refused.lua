-- refused lists the steps that were refused. It forgets those of messages that are
-- gone, have another state since, or were mended.
-- KEYS 1 refused  2 msg  3 claimed
-- Result: uid, and the step and time, of each. Twice: what is forgotten is no more.
local all, over = {}, {}
local noted = redis.call('HGETALL', KEYS[1])
for i = 1, #noted, 2 do
  local uid, step = noted[i], noted[i + 1]
  local record = redis.call('HGET', KEYS[2], uid)
  local from, hash = string.match(step, '^(%d+):%d+:%d+:%d+:?(%x*)$')
  local stands = false
  if record and hash == '' then
    stands = standing(record, WAITING + redis.call('HEXISTS', KEYS[3], uid)) == tonumber(from)
  elseif record then
    stands = redis.sha1hex(record) == hash
  end
  if stands then
    all[#all + 1] = uid
    all[#all + 1] = step
  else
    over[#over + 1] = uid
  end
end
if #over > 0 then redis.call('HDEL', KEYS[1], unpack(over)) end
return all
