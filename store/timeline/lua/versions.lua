-- versions returns the states and versions of messages. It writes nothing.
-- KEYS msg mark claimed due lease pull
-- ARGV uids
-- Result: for each: state (none if it cannot be read) and version
-- A live message that is in no order has the state none: the leader that claimed it could not read it.
local found = {}
for i, uid in ipairs(ARGV) do
  local record = redis.call('HGET', MSG, uid)
  local mark = redis.call('HGET', MARK, uid)
  local now, n = STATE_NONE, 0
  if record and sound(record) and (not live(record) or placed(record, mark, uid)) then
    now = standing(record, holder(uid, record) and STATE_IN_FLIGHT or STATE_WAITING)
    n = version(record, mark)
  end
  found[i] = string.format('%d %.0f', now, n)
end
return found
