-- spoiled removes the claims of messages that cannot be read, and lists the messages as refused.
-- KEYS claimed msg refused term
-- ARGV 1 term  2 number of the claim  3 now in ms; then uids
-- Result: how many claims were removed. Twice: the second time that claim is over.
-- These messages enter no order: otherwise they would be claimed over and over.
local stale = check(ARGV[1])
if stale then return stale end
local n = 0
for i = 4, #ARGV do
  local uid = ARGV[i]
  local record = holder(uid) == ARGV[1] .. ':' .. ARGV[2] and redis.call('HGET', MSG, uid)
  if record then
    redis.call('HDEL', CLAIMED, uid)
    refuse(uid, STATE_NONE, STATE_IN_FLIGHT, KIND_PLAIN, ARGV[3], record)
    n = n + 1
  end
end
return n
