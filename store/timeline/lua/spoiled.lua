-- spoiled takes back claims of messages that nobody can read, and lists them as
-- refused.
-- KEYS 1 claimed  2 msg  3 refused  4 term
-- ARGV 1 term  2 number of the claim  3 now in ms; then uids
-- Result: how many. Twice: the second time that claim is over.
-- They stand in no order any more: they would be claimed over and over.
local stale = check(KEYS[4], ARGV[1])
if stale then return stale end
local n = 0
for i = 4, #ARGV do
  local uid = ARGV[i]
  local record = redis.call('HGET', KEYS[1], uid) == ARGV[1] .. ':' .. ARGV[2] and redis.call('HGET', KEYS[2], uid)
  if record then
    redis.call('HDEL', KEYS[1], uid)
    refuse(KEYS[3], uid, 0, IN_FLIGHT, PLAIN, ARGV[3], record)
    n = n + 1
  end
end
return n
