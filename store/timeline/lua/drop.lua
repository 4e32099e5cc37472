-- drop removes from a key what other buckets have taken.
-- KEYS gen term pulls leasing lanes counts msg
-- ARGV 1 term  2 name of the key  3 its type  4 of a chain, the message that stands in the queue, else ''; then fields
--      or members; of a list, the place and what remains of each entry
-- Result: how many there were. Twice: there are none.
local stale = check(ARGV[1])
if stale then return stale end
local name, kind, n = ARGV[2], ARGV[3], 0
local key = string.sub(GEN, 1, -4) .. name
local on = string.match(name, '^chain:(%Z*)')
if kind == 'list' then -- an entry that names no message is forgotten with its time
  for i = 5, #ARGV, 2 do redis.call('LSET', key, ARGV[i], ARGV[i + 1]) end
  return (#ARGV - 4) / 2
end
for i = 5, #ARGV do
  local at = ARGV[i]
  if name == 'msg' then
    local record = redis.call('HGET', MSG, at)
    if record then weigh(record, -1) end
  end
  local gone = redis.call(kind == 'zset' and 'ZREM' or 'HDEL', key, at)
  if on and gone == 1 and at ~= ARGV[4] then stand_behind(on, -1) end
  n = n + gone
end
count()
derive(name, key)
return n
