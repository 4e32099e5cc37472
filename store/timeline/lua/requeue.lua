-- requeue makes a dead message wait again under a new uid, or one that waits. Any instance may call it.
-- KEYS due msg claimed mark next ended dead name names big counts pull pulls lease expires
-- ARGV 1 uid of the old message  2 now in ms  3 new uid  4 packed message  5 limit of the outbox in bytes
--      6 version of a message that waits, 0 for a dead one
-- Result: code (0 unknown, 1 done, 2 not so, 3 its name is taken, 4 the new uid is
--      another message's), uid, record
--      without body, '1' when claimed and mark of: the new message, the message that is
--      not so, or the message that has the name; record of the old one without body;
--      which orders begin earlier (lib.lua, hasten); entry of the outbox
-- If the dead message may have been delivered, the new one is uncertain: a cancel by the name they share must not
-- answer for the new one alone.
-- Outbox: the old one's uid and the record of its cancel, the new uid and amended
--      form, at version 1.
-- Twice: the new uid exists, so the code is 1 again.
local uid, now, new, packed, limit, waits = unpack(ARGV)
local function answer(code, of, dead, entry)
  local record = redis.call('HGET', MSG, of)
  if not sound(record) then return unsound(of, record) end
  return {code, of, first(record), holder(of, record) and '1' or '', marked(of, record), dead and first(dead) or '',
    hastened, entry or ''}
end
local old = redis.call('HGET', MSG, uid)
if old and not sound(old) then return unsound(uid, old) end
if redis.call('HEXISTS', MSG, new) == 1 then
  local made = old and not live(old) and kind(old) == KIND_REQUEUED and other(old) == new
  return answer(made and '1' or '4', new, made and old)
end
if not old then return {'0', '', '', '', '', '', hastened, ''} end
local was, stood, from = old, marked(uid, old), STATE_WAITING
if live(old) then
  if holder(uid, old) or uncertain(stood) or string.format('%.0f', version(old, stood)) ~= waits then
    return answer('2', uid)
  end
else
  was, from = content(old), state(old)
end
if live(old) ~= (waits ~= '0') or not may(from, STATE_CANCELED, KIND_REQUEUED) then return answer('2', uid) end
local id, key = called(was)
local given, within = called(packed)
if id ~= given or key ~= within or topic(was) ~= topic(packed) then
  return redis.error_reply('REQUEUE under another name')
end
local at, taken = id ~= '' and field(id, topic(was), key), nil
if at then
  attempts(redis.call('HGET', NAME, at), function(u)
    local record = redis.call('HGET', MSG, u)
    if record and live(record) and u ~= uid then taken = u end
  end)
end
if taken then return answer('3', taken) end
local full = overfull(limit)
if full then return full end
local doubt_of_old = not live(old) and doubtful(old)
local record = ending(STATE_CANCELED, was, tonumber(now), doubt_of_old, because(KIND_REQUEUED, new),
  version(old, stood) + 1, live(old) and numbers(stood) or refused(old))
local mark = doubt_of_old and '1:0:0:' or ''
redis.call('ZREM', DEAD, uid)
-- As in amend.lua: a retry is not asked for.
local before = head(DUE)
local expires = live(old) and due(packed) == due(old) and redis.call('ZSCORE', EXPIRES, uid) or nil
if live(old) then take_out(old, stood, uid) end
redis.call('HSET', MSG, uid, record, new, packed)
if mark ~= '' then redis.call('HSET', MARK, new, mark) end
remember_end(now, uid)
enter(packed, new, before, expires)
if at then
  -- earlier attempts are dropped: numbers count from 1 again, so a new attempt could be taken for an old one
  redis.call('HSET', NAME, at, new)
  redis.call('ZADD', NAMES, '0', at)
end
if #packed > 16384 then redis.call('SET', BIG, '1') end
weigh(old, -1)
tally(topic(packed), 1)
count()
local form = amended(packed, mark, because(KIND_REQUEUE, uid), packed)
local entry = note(2, #uid + #record + #new + #form, uid, record, new, form)
return answer('1', new, record, entry)
