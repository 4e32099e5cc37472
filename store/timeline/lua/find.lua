-- find reads messages by uid or by client id. It writes nothing.
-- KEYS 1 msg  2 name  3 claimed  4 mark
-- ARGV 1 'uid', 'id' (any key) or 'key'  2 uid or id  3 key
-- Result: for each message: uid, record, '1' when claimed, mark
local result = {}
local function tell(uid)
  local record = redis.call('HGET', KEYS[1], uid)
  if not record then return end
  result[#result + 1] = uid
  result[#result + 1] = record
  result[#result + 1] = redis.call('HEXISTS', KEYS[3], uid) == 1 and '1' or ''
  result[#result + 1] = redis.call('HGET', KEYS[4], uid) or ''
end
if ARGV[1] == 'uid' then
  tell(ARGV[2])
else
  names(redis.call('HGET', KEYS[2], ARGV[2]), function(uid, key)
    if ARGV[1] == 'id' or key == ARGV[3] then tell(uid) end
  end)
end
return result
