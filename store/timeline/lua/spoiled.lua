-- spoiled removes the claims and leases of messages that cannot be read, and lists the messages as refused.
-- KEYS claimed msg refused term lease leasing
-- ARGV 1 term, '' for leases  2 number of the claim, or nonce  3 now in ms; then uids
-- Result: how many were removed. Twice: the second time that claim or lease is over.
-- These messages enter no order: otherwise they would be handed out over and over.
local stale = ARGV[1] ~= '' and check(ARGV[1])
if stale then return stale end
local n = 0
for i = 4, #ARGV do
  local uid = ARGV[i]
  local record, lease = redis.call('HGET', MSG, uid), redis.call('HGET', LEASE, uid)
  local held = record and claimed(uid) == ARGV[1] .. ':' .. ARGV[2]
  if held then
    redis.call('HDEL', CLAIMED, uid)
  elseif record and lease and string.sub(lease, 1, 16) == ARGV[2] and sound(record) then
    unlease(topic(record), uid)
    held = true
  end
  if held then
    refuse(uid, STATE_NONE, STATE_IN_FLIGHT, KIND_PLAIN, ARGV[3], record)
    n = n + 1
  end
end
return n
