-- restore stores what the journal knows and this bucket does not.
-- KEYS 1 due  2 msg  3 claimed  4 mark  5 ended  6 name  7 names  8 big  9 dead
--      10 next  11 counts  12 trimmed  13 refused  14 lanes
-- ARGV 1 now in ms  2 prefix of the bucket's lanes  3 what the outbox gets, '' where
--      nothing changed  4 the records are as of this time or later; then for each
--      message: uid, record, score ('' for an end), mark, version in the journal,
--      version once stored, name ('' or as for add)
-- Result: for each message a code: 0 same version here, 1 added, 2 raised, 3 in
--      flight, 4 newer here; entry of the outbox. Or the error OUTDATED where ends of
--      that time or later are forgotten: a record may be of before its message's end.
-- A leader that recovers takes over what is in flight.
-- What stands here and cannot be read is none, nor is what lives in no order (versions),
-- but for what a newer tarry wrote: that is newer here.
-- An end stands for good but for a dead message: the journal may know that it was
-- requeued or purged since.
-- Outbox: ARGV 3, and the uids of those that were stored.
-- Twice: the second time the versions are here.
local forgotten = tonumber(redis.call('GET', KEYS[12]) or '0')
if forgotten > 0 and forgotten >= tonumber(ARGV[4]) then
  return redis.error_reply('OUTDATED ends are forgotten up to ' .. forgotten .. ', read at ' .. ARGV[4])
end
local n = (#ARGV - 4) / 7
local codes, stored = {}, {}

-- call enters a message under its name, in the order of acceptance: so a life of the
-- name that began later stands last, whatever number its attempts have. As after an
-- add, what has ended stays among the attempts only where it is the last.
local function call(uid, name, topic)
  local a = string.byte(name, 1)
  local b = string.byte(name, a + 2)
  local id, key = string.sub(name, 2, a + 1), string.sub(name, a + 3, a + 2 + b)
  local at, all, over, known = field(id, topic, key), {uid}, {}, false
  local entries = redis.call('HGET', KEYS[6], at)
  past(entries, function(other)
    known = known or other == uid
    over[#over + 1] = other
  end)
  attempts(entries, function(other)
    known = known or other == uid
    all[#all + 1] = other
  end)
  if known then return end
  table.sort(all)
  local kept = {}
  for i, other in ipairs(all) do
    local record = redis.call('HGET', KEYS[2], other)
    if i == #all or record and string.byte(record, 1) == 1 then
      kept[#kept + 1] = other
    elseif record then
      over[#over + 1] = other
    end
  end
  table.sort(over)
  redis.call('HSET', KEYS[6], at, joined(table.concat(kept), table.concat(over, '', math.max(#over - 31, 1))))
  redis.call('ZADD', KEYS[7], '0', at)
end

for i = 1, n do
  local uid, value, place, mark, base, becomes, name = unpack(ARGV, 7 * i - 2, 7 * i + 4)
  local old = redis.call('HGET', KEYS[2], uid)
  local spoiled, lost = old and not sound(old), false
  if old and not spoiled and string.byte(old, 1) == 1 then
    lost = not placed(KEYS[1], ARGV[2], KEYS[3], redis.call('HGET', KEYS[4], uid), uid)
    spoiled = lost
  end
  if spoiled and not newer(old) then old = nil end
  local oldmark = old and redis.call('HGET', KEYS[4], uid)
  local have, code = old and version(old, oldmark) or 0, '1'
  -- Of one version an end wins: the other side was made when the end was lost.
  local over = place == '' and old and string.byte(old, 1) == 1 and have == tonumber(base)
  if old and newer(old) then
    code = '4'
  elseif not over and (have == tonumber(becomes) or have == tonumber(base)) then
    code = '0'
  elseif have > tonumber(becomes) or (old and string.byte(old, 1) == 2
    and not may(string.byte(old, 2), place == '' and string.byte(value, 2) or WAITING, RESTORED)) then
    code = '4'
  elseif not recovering and redis.call('HEXISTS', KEYS[3], uid) == 1 then
    code = '3'
  else
    local counted = redis.call('HDEL', KEYS[3], uid) == 1 or lost
    if spoiled then
      redis.call('HDEL', KEYS[13], uid)
      counted = leave(KEYS[1], ARGV[2], redis.call('HGET', KEYS[4], uid), uid) == 1 or counted
      for _, parked in ipairs(lost and redis.call('SMEMBERS', KEYS[14]) or {}) do -- its mark may not tell where it is
        redis.call('ZREM', behind(ARGV[2], parked), uid)
        redis.call('ZREM', ARGV[2] .. parked, uid)
      end
      local name = topic(place ~= '' and value or content(value)) -- which it had, too
      if redis.call('ZREM', KEYS[9], uid) == 1 then
        tally(name, 0, -1)
      elseif counted or place ~= '' then -- a claim may have taken it out of its order
        tally(name, -1)
      end
    elseif old then
      code = '2'
      if string.byte(old, 1) == 2 then
        redis.call('ZREM', KEYS[9], uid)
        tally(topic(content(old)), 0, -1)
      else
        leave(KEYS[1], ARGV[2], oldmark, uid)
        tally(topic(old), -1)
      end
    end
    redis.call('HDEL', KEYS[4], uid) -- a removal first: a full Redis takes the rest
    redis.call('HSET', KEYS[2], uid, value)
    local at = 14
    if place ~= '' then
      redis.call('ZADD', KEYS[1], place, uid)
      if mark ~= '' then redis.call('HSET', KEYS[4], uid, mark) end
      if #value > 16384 then redis.call('SET', KEYS[8], '1') end
      tally(topic(value), 1)
    else
      redis.call('HDEL', KEYS[10], uid)
      at = at + 24 + string.byte(value, 24)
      if string.byte(value, 2) == 6 then
        redis.call('ZADD', KEYS[9], struct.unpack('>i8', value, 4), uid)
        tally(topic(content(value)), 0, 1)
      else
        redis.call('RPUSH', KEYS[5], string.format('%013d', ARGV[1]) .. uid)
      end
    end
    if name ~= '' then
      local packed = string.sub(value, at - 13)
      call(uid, name, topic(packed))
    end
    stored[#stored + 1] = uid
  end
  codes[i] = code
end
if #stored > 0 then count(KEYS[11]) end
local entry = ''
if CONTEXT ~= '' and ARGV[3] ~= '' and #stored > 0 then
  local some = table.concat(stored)
  entry = note(#stored, #ARGV[3] + #some, 'e', ARGV[3], 'o', some)
end
return {codes, entry}
