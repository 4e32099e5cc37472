-- return releases claimed messages to waiting; it skips those that are not held by the given claim.
-- KEYS claimed due term mark lanes msg next ended counts name names refused pull pulls lease expires
-- ARGV 1 term  2 now in ms  3 the outbox's field, '' if nothing changed; then for each message: uid, score,
--      mark, number of the claim
--      score '' stands for the message's own; mark '' is none, '=' keeps the mark except for its
--      lane; a message waits in the lane that its mark names
-- Result: how many messages wait again or have ended; if not all wait again, the uids
--      of those that do, or '-' for none; entry of the outbox; then uid and record of each that ended
-- If another push stands as the next one under a message's name, one of the two ends (lib.lua, comeback). A message
-- that cannot be read loses its claim and enters no order: otherwise it would be claimed over and over.
-- Outbox: ARGV 3, and if not all wait again the uids of those that do; then uid
--      and record of those that ended.
-- Twice: the second time that claim is over.
local stale = check(ARGV[1])
if stale then return stale end
local n = (#ARGV - 3) / 4
local back, over, log, lanes = {}, 0, {}, {}
local nexts = redis.call('EXISTS', NEXT) == 1
for i = 1, n do
  local uid, place, mark, claim = unpack(ARGV, 4 * i, 4 * i + 3)
  local held = claimed(uid) == ARGV[1] .. ':' .. claim
  local packed = held and redis.call('HGET', MSG, uid)
  local from = packed and standing(packed, STATE_IN_FLIGHT)
  if from == STATE_NONE then
    redis.call('HDEL', CLAIMED, uid)
    refuse(uid, STATE_NONE, STATE_WAITING, KIND_PLAIN, ARGV[2], packed)
  elseif from and not may(from, STATE_WAITING, KIND_PLAIN) then
    refuse(uid, from, STATE_WAITING, KIND_PLAIN, ARGV[2])
  elseif held then
    local own = packed and score(packed) or '0'
    if place == '' then place = own end
    local before = (nexts or mark == '=') and redis.call('HGET', MARK, uid) or ''
    if mark == '=' then
      mark = string.match(before, '^%d+:%d+:%d+:') or ''
      if mark == '0:0:0:' then mark = '' end
    end
    redis.call('HDEL', CLAIMED, uid)
    redis.call('HDEL', MARK, uid)
    local ended = nexts and packed and comeback(uid, packed, uncertain(mark), before, ARGV[2], log)
    if ended then
      over = over + 1
    else
      local aside = mark ~= '' and lane(mark)
      redis.call('ZADD', aside and parked(aside) or DUE, place, uid)
      if aside then
        lanes[aside] = true
        if tonumber(place) > tonumber(own) then redis.call('ZADD', behind(aside), own, uid) end
      end
      if mark ~= '' then redis.call('HSET', MARK, uid, mark) end
      back[#back + 1] = uid
    end
  end
end
count()
for name in pairs(lanes) do redis.call('SADD', LANES, name) end
local entry, some, fields, changes, size = '', '', {}, #log / 2, 0
if #back < n then some = #back > 0 and table.concat(back) or '-' end
if ARGV[3] ~= '' and #back > 0 then
  fields = {'e', ARGV[3]}
  changes, size = changes + #back, #ARGV[3] + #some
  if some ~= '' then push(fields, 'o', some) end
end
for i = 1, #log do
  fields[#fields + 1] = log[i]
  size = size + #log[i]
end
if #fields > 0 then entry = note(changes, size, unpack(fields)) end
return {tostring(#back + over), some, entry, unpack(log)}
