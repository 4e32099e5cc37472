-- versions returns how messages stand. It writes nothing.
-- KEYS 1 msg  2 mark  3 claimed  4 due
-- ARGV 1 prefix of the bucket's lanes; then uids
-- Result: for each: state (0 none that can be read, 1 waiting, 2 in flight, else as recorded) and version
-- What lives and stands in no order is none: whoever claimed it could not read it.
local found = {}
for i = 2, #ARGV do
  local uid, told = ARGV[i], '0 0'
  local record = redis.call('HGET', KEYS[1], uid)
  if record and sound(record) then
    local state, mark = string.byte(record, 2), redis.call('HGET', KEYS[2], uid)
    if string.byte(record, 1) == 1 then
      state = placed(KEYS[4], ARGV[1], KEYS[3], mark, uid) and 1 + redis.call('HEXISTS', KEYS[3], uid)
    end
    if state then told = state .. ' ' .. string.format('%.0f', version(record, mark)) end
  end
  found[i - 1] = told
end
return found
