-- find reads messages by uid or by client id. It writes nothing.
-- KEYS 1 msg  2 name  3 claimed  4 mark  5 names
-- ARGV 1 'uid', 'id' (any key) or 'key'  2 uid or id  3 key  4 how many keys at most
-- Result: for each message: uid, record, '1' when claimed, mark; 'many' alone
--      where more keys have the id
local result = {}
local function tell(uid)
  local record = redis.call('HGET', KEYS[1], uid)
  if not record then return end
  result[#result + 1] = uid
  result[#result + 1] = record
  result[#result + 1] = redis.call('HEXISTS', KEYS[3], uid) == 1 and '1' or ''
  local mark = redis.call('HGET', KEYS[4], uid) or ''
  if string.byte(record, 1) == 1 then mark = effective(mark, record) end
  result[#result + 1] = mark
end
if ARGV[1] == 'uid' then
  tell(ARGV[2])
elseif ARGV[1] == 'key' then
  attempts(redis.call('HGET', KEYS[2], field(ARGV[2], ARGV[3])), tell)
else
  attempts(redis.call('HGET', KEYS[2], field(ARGV[2], '')), tell)
  local keys = keyed(KEYS[5], ARGV[2], tonumber(ARGV[4]))
  if #keys > tonumber(ARGV[4]) then return {'many'} end
  for _, key in ipairs(keys) do attempts(redis.call('HGET', KEYS[2], field(ARGV[2], key)), tell) end
end
return result
