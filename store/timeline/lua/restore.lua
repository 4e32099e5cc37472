-- restore stores the journal's records that this bucket lacks.
-- KEYS due msg claimed mark ended name names big dead next counts trimmed refused lanes
-- KEYS pull pulls lease expires leasing
-- ARGV 1 now in ms  2 the outbox's field, '' if nothing changed  3 the records are as of this time or
--      later; then for each message: uid, record, mark, version in the journal, version once stored, name
--      ('' or as for add)
-- Result: for each message a code: 0 same version here, 1 added, 2 raised, 3 in
--      flight, 4 newer here; entry of the outbox. Or the error OUTDATED if ends of
--      that time or later are forgotten: a record may be older than its message's end.
-- A recovering leader also replaces messages in flight and leased ones. A message here counts as missing if it cannot
-- be read, or lives in no order (versions), except in a form of a newer tarry, which counts as newer here. An end here
-- is final, except for a dead message: the journal may know that it was requeued or purged since.
-- Outbox: ARGV 2, and the uids of those that were stored.
-- Twice: the second time the versions are the same.
-- At most 1,000 messages: each kind of call takes all of them.
-- Where a bucket is filled, nothing is here of most messages: those of them that wait for NATS take one call for all of
-- each kind. One by one a message takes about 12.
local forgotten = tonumber(redis.call('GET', TRIMMED) or '0')
if forgotten > 0 and forgotten >= tonumber(ARGV[3]) then
  return redis.error_reply('OUTDATED ends are forgotten up to ' .. forgotten .. ', read at ' .. ARGV[3])
end
local n = (#ARGV - 3) / 6
local codes, stored = {}, {}
local uids, names, topics = {}, {}, {} -- names: the fields of NAME, '' without one
for i = 1, n do
  local uid, value, name = ARGV[6 * i - 2], ARGV[6 * i - 1], ARGV[6 * i + 3]
  uids[i], names[i], topics[i] = uid, '', topic(live(value) and value or content(value))
  if name ~= '' then
    local a = string.byte(name, 1)
    local b = string.byte(name, a + 2)
    names[i] = field(string.sub(name, 2, a + 1), topics[i], string.sub(name, a + 3, a + 2 + b))
  end
end

-- call lists a message under its name, in the order of acceptance: so a life of the name that began later stands last,
-- whatever number its attempts have. As after an add, an ended message is among the attempts only if it is the last.
local function call(uid, at)
  local all, over, known = {}, {}, false
  local entries = redis.call('HGET', NAME, at)
  past(entries, function(other)
    known = known or other == uid
    over[#over + 1] = other
  end)
  attempts(entries, function(other)
    known = known or other == uid
    all[#all + 1] = other
  end)
  if known then return end
  local place = #all + 1
  while place > 1 and precedes(uid, all[place - 1]) do place = place - 1 end
  table.insert(all, place, uid)
  local kept = {}
  for i, other in ipairs(all) do
    local record = redis.call('HGET', MSG, other)
    if i == #all or record and live(record) then
      kept[#kept + 1] = other
    elseif record then
      over[#over + 1] = other
    end
  end
  table.sort(over)
  redis.call('HSET', NAME, at, joined(table.concat(kept), table.concat(over, '', math.max(#over - 31, 1))))
  redis.call('ZADD', NAMES, '0', at)
end

-- together stores those of which nothing is here.
local function together()
  local here, taken = {}, {}
  for _, key in ipairs({MSG, CLAIMED, LEASE, MARK}) do
    for i, value in ipairs(redis.call('HMGET', key, unpack(uids))) do here[i] = here[i] or value end
  end
  for i, entries in ipairs(redis.call('HMGET', NAME, unpack(names))) do taken[names[i]] = entries end
  local set, order, named, index = {}, {}, {}, {}
  for i = 1, n do
    local uid, value, at = uids[i], ARGV[6 * i - 1], names[i]
    if not here[i] and not taken[at] and ARGV[6 * i] == '' and live(value) and not pulled(value) then
      codes[i], stored[#stored + 1] = '1', uid
      push(set, uid, value)
      push(order, score(value), uid)
      tally(topics[i], 1)
      if #value > 16384 then redis.call('SET', BIG, '1') end
      if at ~= '' then
        taken[at] = true
        push(named, at, uid)
        push(index, '0', at)
      end
    end
  end
  if #set == 0 then return end
  redis.call('HDEL', MARK, stored[1]) -- a removal comes first: then a full Redis accepts the rest
  redis.call('HSET', MSG, unpack(set))
  redis.call('ZADD', DUE, unpack(order))
  if #named > 0 then
    redis.call('HSET', NAME, unpack(named))
    redis.call('ZADD', NAMES, unpack(index))
  end
end

-- alone stores one, or leaves what is here, and returns its code.
local function alone(i)
  local uid, value, mark, base, becomes = unpack(ARGV, 6 * i - 2, 6 * i + 2)
  local lives, on = live(value), topics[i]
  local old = redis.call('HGET', MSG, uid)
  local spoiled, lost = old and not sound(old), false
  if old and not spoiled and live(old) then
    lost = not placed(old, redis.call('HGET', MARK, uid), uid)
    spoiled = lost
  end
  if spoiled and not newer(old) then old = nil end
  local oldmark = old and redis.call('HGET', MARK, uid)
  local have, code = old and version(old, oldmark) or 0, '1'
  -- At equal versions an end wins: the other record was made after the end was lost.
  local late = not lives and old and live(old) and have == tonumber(base)
  if old and newer(old) then
    code = '4'
  elseif not late and (have == tonumber(becomes) or have == tonumber(base)) then
    code = '0'
  elseif have > tonumber(becomes) or (old and not live(old)
    and not may(state(old), lives and STATE_WAITING or state(value), KIND_RESTORED)) then
    code = '4'
  elseif not recovering and (claimed(uid) or redis.call('HEXISTS', LEASE, uid) == 1) then
    code = '3'
  else
    local counted = redis.call('HDEL', CLAIMED, uid) == 1 or lost
    if redis.call('HEXISTS', LEASE, uid) == 1 then
      unlease(on, uid)
      counted = true
    end
    if spoiled then
      redis.call('HDEL', REFUSED, uid)
      counted = leave('', redis.call('HGET', MARK, uid), uid)
        + withdraw(on, uid, lives and value or content(value)) > 0 or counted
      for _, lane in ipairs(lost and redis.call('SMEMBERS', LANES) or {}) do -- its mark may not say in which lane it is
        redis.call('ZREM', behind(lane), uid)
        redis.call('ZREM', parked(lane), uid)
      end
      if redis.call('ZREM', DEAD, uid) == 1 then
        tally(on, 0, -1)
      elseif counted or lives then -- a claim may have removed it from its order
        tally(on, -1)
      end
    elseif old then
      code = '2'
      if live(old) then
        leave(old, oldmark, uid)
        tally(topic(old), -1)
      else
        redis.call('ZREM', DEAD, uid)
        tally(topic(content(old)), 0, -1)
      end
    end
    redis.call('HDEL', MARK, uid) -- first, as above
    redis.call('HSET', MSG, uid, value)
    if lives then
      enter(value, uid)
      if mark ~= '' then redis.call('HSET', MARK, uid, mark) end
      if #value > 16384 then redis.call('SET', BIG, '1') end
      tally(on, 1)
    else
      redis.call('HDEL', NEXT, uid)
      if kept(state(value)) then
        redis.call('ZADD', DEAD, struct.unpack('>i8', value, 4), uid)
        tally(on, 0, 1)
      else
        remember_end(ARGV[1], uid)
      end
    end
    if names[i] ~= '' then call(uid, names[i]) end
    stored[#stored + 1] = uid
  end
  return code
end

together()
for i = 1, n do codes[i] = codes[i] or alone(i) end
local entry = ''
if #stored > 0 then
  count()
  local some = table.concat(stored)
  if ARGV[2] ~= '' then entry = note(#stored, #ARGV[2] + #some, 'e', ARGV[2], 'o', some) end
end
return {codes, entry}
