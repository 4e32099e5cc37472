-- requeue gives a dead message another life under another uid. Any instance may
-- call it.
-- KEYS 1 due  2 msg  3 claimed  4 mark  5 ended  6 dead  7 name  8 names  9 big  10 counts
-- ARGV 1 uid that is dead  2 now in ms  3 new uid  4 score  5 packed message
-- Result: code (0 unknown, 1 done, 2 not dead, 3 its name is taken), uid, record
--      without body, '1' when claimed and mark of: the new message, the message that is
--      not dead, or the message that has the name; record of the dead one without body;
--      the earliest score when this made it earlier; entry of the outbox
-- If the dead message may have been delivered the new one is uncertain: a cancel by
-- the name they share must not answer for the new one alone.
-- Outbox: the dead one's uid and the record of its cancel, the new uid and amended
--      form, at version 1.
-- Twice: the new uid is there: done.
local uid, new, packed = ARGV[1], ARGV[3], ARGV[5]
local function answer(code, of, dead, head, entry)
  local record = redis.call('HGET', KEYS[2], of)
  if not sound(record) then return unsound(of, record) end
  local mark = redis.call('HGET', KEYS[4], of) or ''
  if string.byte(record, 1) == 1 then mark = effective(mark, record) end
  return {code, of, first(record), redis.call('HEXISTS', KEYS[3], of) == 1 and '1' or '', mark,
    dead and first(dead) or '', head or '', entry or ''}
end
local old = redis.call('HGET', KEYS[2], uid)
if old and not sound(old) then return unsound(uid, old) end
if redis.call('HEXISTS', KEYS[2], new) == 1 then return answer('1', new, old) end
if not old then return {'0', '', '', '', '', '', '', ''} end
if string.byte(old, 1) ~= 2 or not may(string.byte(old, 2), CANCELED, REQUEUED) then return answer('2', uid) end
local was = content(old)
local id, key = called(was)
local given, within = called(packed)
if id ~= given or key ~= within or topic(was) ~= topic(packed) then
  return redis.error_reply('REQUEUE under another name')
end
local at, taken = id ~= '' and field(id, topic(was), key), nil
if at then
  attempts(redis.call('HGET', KEYS[7], at), function(u)
    local record = redis.call('HGET', KEYS[2], u)
    if record and string.byte(record, 1) == 1 then taken = u end
  end)
end
if taken then return answer('3', taken) end
local uncertain = string.byte(old, 3) % 2 == 1
local record = canceled(was, tonumber(ARGV[2]), uncertain, because(REQUEUED, new), version(old) + 1)
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
redis.call('ZREM', KEYS[6], uid)
redis.call('HSET', KEYS[2], uid, record, new, packed)
if uncertain then redis.call('HSET', KEYS[4], new, '1:0:0:') end
redis.call('RPUSH', KEYS[5], string.format('%013d', ARGV[2]) .. uid)
redis.call('ZADD', KEYS[1], ARGV[4], new)
if at then
  -- no attempts before: they count from 1 again, and the next may read like an old one
  redis.call('HSET', KEYS[7], at, new)
  redis.call('ZADD', KEYS[8], '0', at)
end
if #packed > 16384 then redis.call('SET', KEYS[9], '1') end
tally(topic(was), 0, -1)
tally(topic(packed), 1)
count(KEYS[10])
local entry = ''
if CONTEXT ~= '' then
  local form = amended(packed, uncertain and '1:0:0:' or '', because(REQUEUE, uid), packed)
  entry = note(2, #uid + #record + #new + #form, uid, record, new, form)
end
local earlier = not head or tonumber(ARGV[4]) < tonumber(head)
return answer('1', new, record, earlier and ARGV[4], entry)
