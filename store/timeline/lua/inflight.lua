-- inflight counts the messages in flight by topic. It writes nothing.
-- KEYS claimed msg
-- ARGV 1 bytes: it stops after the message that reaches them; then uids
-- Result: how many of the uids were read; then each topic found and how
--      many of them are in flight on it
local bytes, looked, met = tonumber(ARGV[1]), 0, {}
while bytes > 0 and looked < #ARGV - 1 do
  looked = looked + 1
  local uid = ARGV[looked + 1]
  local packed = claimed(uid) and redis.call('HGET', MSG, uid)
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
