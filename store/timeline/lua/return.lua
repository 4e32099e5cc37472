-- return gives claimed messages back to waiting; those that are not held by the
-- claim that is named are passed over.
-- KEYS 1 claimed  2 due or a lane  3 term  4 mark  5 lanes  6 msg
-- ARGV 1 term  2 lane, '' for the bucket  3 what the outbox gets, '' where nothing
--      changed, then for each message: uid, score, mark, number of the claim
--      score '' is the message's own; mark '' is none, '=' leaves it but for its lane
-- Result: how many went back; where that is not all of them, their uids; entry of
--      the outbox
-- Outbox: ARGV 3, and where not all went back the uids of those that did.
-- Twice: the second time that claim is over.
local stale = check(KEYS[3], ARGV[1])
if stale then return stale end
local n = (#ARGV - 3) / 4
local back = {}
for i = 1, n do
  local uid, place, mark, claim = unpack(ARGV, 4 * i, 4 * i + 3)
  if redis.call('HGET', KEYS[1], uid) == ARGV[1] .. ':' .. claim then
    if place == '' then
      local packed = redis.call('HGET', KEYS[6], uid)
      place = packed and score(packed) or '0'
    end
    if mark == '=' then
      mark = redis.call('HGET', KEYS[4], uid) or ''
      mark = string.match(mark, '^%d+:%d+:%d+:') or ''
      if mark == '0:0:0:' then mark = '' end
    end
    redis.call('HDEL', KEYS[1], uid)
    redis.call('HDEL', KEYS[4], uid)
    redis.call('ZADD', KEYS[2], place, uid)
    if mark ~= '' then redis.call('HSET', KEYS[4], uid, mark) end
    back[#back + 1] = uid
  end
end
if #back > 0 and ARGV[2] ~= '' then redis.call('SADD', KEYS[5], ARGV[2]) end
local entry, some = '', #back < n and table.concat(back) or ''
if CONTEXT ~= '' and ARGV[3] ~= '' and #back > 0 then
  if some == '' then
    entry = note(#back, #ARGV[3], 'e', ARGV[3])
  else
    entry = note(#back, #ARGV[3] + #some, 'e', ARGV[3], 'o', some)
  end
end
return {tostring(#back), some, entry}
