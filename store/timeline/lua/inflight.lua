-- inflight counts the messages in flight by topic. It writes nothing.
-- KEYS 1 claimed  2 msg
-- ARGV 1 bytes: it stops after the message with which so many were read; then uids
-- Result: how many of the uids were looked at; then each topic that was met and how
--      many of them are in flight on it
local bytes, looked, met = tonumber(ARGV[1]), 0, {}
while bytes > 0 and looked < #ARGV - 1 do
  looked = looked + 1
  local uid = ARGV[looked + 1]
  local packed = redis.call('HEXISTS', KEYS[1], uid) == 1 and redis.call('HGET', KEYS[2], uid)
  if packed and sound(packed) then
    local name = topic(packed)
    met[name] = (met[name] or 0) + 1
    bytes = bytes - #packed
  end
end
local result = {tostring(looked)}
for name, n in pairs(met) do
  result[#result + 1] = name
  result[#result + 1] = tostring(n)
end
return result
