-- versions tells how messages stand. It writes nothing.
-- KEYS 1 msg  2 mark  3 claimed
-- ARGV uids
-- Result: for each: state (0 none, 1 waiting, 2 in flight, else as recorded) and version
local found = {}
for i, uid in ipairs(ARGV) do
  local record = redis.call('HGET', KEYS[1], uid)
  if not record then
    found[i] = '0 0'
  else
    local state = string.byte(record, 2)
    if string.byte(record, 1) == 1 then state = 1 + redis.call('HEXISTS', KEYS[3], uid) end
    found[i] = state .. ' ' .. string.format('%.0f', version(record, redis.call('HGET', KEYS[2], uid)))
  end
end
return found
