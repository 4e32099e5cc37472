-- return gives claimed messages back to waiting; those that are not held by the
-- claim that is named are passed over.
-- KEYS 1 claimed  2 due  3 term  4 mark  5 lanes  6 msg  7 next  8 ended  9 counts
--      10 name  11 names  12 refused
-- ARGV 1 term  2 now in ms  3 what the outbox gets, '' where nothing changed
--      4 prefix of the bucket's lanes, then for each message: uid, score, mark, number
--      of the claim
--      score '' is the message's own; mark '' is none, '=' leaves it but for its
--      lane; a message waits in the lane that its mark names
-- Result: how many that can be read are claimed no more; where not all went back to waiting, the uids
--      of those that did, or '-'; entry of the outbox; then what ended: uid and record,
--      each
-- Where another push stands as the next one under a message's name, one of the two
-- ends (lib.lua, comeback). What cannot be read is claimed no more and stands in no
-- order: else it would be claimed over and over.
-- Outbox: ARGV 3, and where not all went back the uids of those that did; then uid
--      and record of those that ended.
-- Twice: the second time that claim is over.
local stale = check(KEYS[3], ARGV[1])
if stale then return stale end
local n = (#ARGV - 4) / 4
local back, over, log, lanes = {}, 0, {}, {}
local k = redis.call('EXISTS', KEYS[7]) == 1 and
  {claimed = KEYS[1], due = KEYS[2], mark = KEYS[4], msg = KEYS[6], next = KEYS[7], ended = KEYS[8],
    name = KEYS[10], names = KEYS[11], refused = KEYS[12], parked = ARGV[4]}
for i = 1, n do
  local uid, place, mark, claim = unpack(ARGV, 4 * i + 1, 4 * i + 4)
  local held = redis.call('HGET', KEYS[1], uid) == ARGV[1] .. ':' .. claim
  local packed = held and redis.call('HGET', KEYS[6], uid)
  local from = packed and standing(packed, IN_FLIGHT)
  if from == 0 then
    redis.call('HDEL', KEYS[1], uid)
    refuse(KEYS[12], uid, 0, WAITING, PLAIN, ARGV[2], packed)
  elseif from and not may(from, WAITING, PLAIN) then
    refuse(KEYS[12], uid, from, WAITING, PLAIN, ARGV[2])
  elseif held then
    local own = packed and score(packed) or '0'
    if place == '' then place = own end
    local before = (k or mark == '=') and redis.call('HGET', KEYS[4], uid) or ''
    if mark == '=' then
      mark = string.match(before, '^%d+:%d+:%d+:') or ''
      if mark == '0:0:0:' then mark = '' end
    end
    redis.call('HDEL', KEYS[1], uid)
    redis.call('HDEL', KEYS[4], uid)
    local ended = k and packed and comeback(k, uid, packed, string.byte(mark, 1) == 49, before, ARGV[2], log)
    if ended then
      tally(topic(packed), -1)
      over = over + 1
    else
      local parked = mark ~= '' and lane(mark)
      redis.call('ZADD', parked and ARGV[4] .. parked or KEYS[2], place, uid)
      if parked then
        lanes[parked] = true
        if tonumber(place) > tonumber(own) then redis.call('ZADD', behind(ARGV[4], parked), own, uid) end
      end
      if mark ~= '' then redis.call('HSET', KEYS[4], uid, mark) end
      back[#back + 1] = uid
    end
  end
end
count(KEYS[9])
for name in pairs(lanes) do redis.call('SADD', KEYS[5], name) end
local entry, some, fields, changes, size = '', '', {}, #log / 2, 0
if #back < n then some = #back > 0 and table.concat(back) or '-' end
if CONTEXT ~= '' and #back + over > 0 then
  if ARGV[3] ~= '' and #back > 0 then
    fields = {'e', ARGV[3]}
    changes, size = changes + #back, #ARGV[3] + #some
    if some ~= '' then
      fields[3] = 'o'
      fields[4] = some
    end
  end
  for i = 1, #log do
    fields[#fields + 1] = log[i]
    size = size + #log[i]
  end
  if #fields > 0 then entry = note(changes, size, unpack(fields)) end
end
return {tostring(#back + over), some, entry, unpack(log)}
