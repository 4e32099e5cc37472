-- restore stores what the journal knows and this bucket does not.
-- KEYS 1 due  2 msg  3 claimed  4 mark  5 ended  6 name  7 names  8 big  9 dead
--      10 next  11 counts
-- ARGV 1 now in ms  2 prefix of the bucket's lanes  3 what the outbox gets, '' where
--      nothing changed; then for each message: uid, record, score ('' for an end),
--      mark, version in the journal, version once stored, name ('' or as for add)
-- Result: for each message a code: 0 same version here, 1 added, 2 raised, 3 in
--      flight, 4 newer here; entry of the outbox
-- An end stands for good but for a dead message: the journal may know that it was
-- requeued or purged since.
-- Outbox: ARGV 3, and the uids of those that were stored.
-- Twice: the second time the versions are here.
local n = (#ARGV - 3) / 7
local codes, stored = {}, {}

-- call enters a message under its name, in the order of attempts.
local function call(uid, name, attempt)
  local a = string.byte(name, 1)
  local b = string.byte(name, a + 2)
  local id, key = string.sub(name, 2, a + 1), string.sub(name, a + 3, a + 2 + b)
  local at, list, place = field(id, key), {}, nil
  local entries = redis.call('HGET', KEYS[6], at)
  local known = false
  attempts(entries, function(other)
    if other == uid then known = true end
    local record = redis.call('HGET', KEYS[2], other)
    if record and not place then
      if string.byte(record, 1) == 2 then record = content(record) end
      local before = struct.unpack('>I4', record, 14)
      if before > attempt or (before == attempt and other > uid) then place = #list + 1 end
    end
    list[#list + 1] = other
  end)
  if known then return end
  table.insert(list, place or #list + 1, uid)
  redis.call('HSET', KEYS[6], at, table.concat(list))
  if key ~= '' then redis.call('ZADD', KEYS[7], '0', string.char(#id) .. id .. key) end
end

for i = 1, n do
  local uid, value, place, mark, base, becomes, name = unpack(ARGV, 7 * i - 3, 7 * i + 3)
  local old = redis.call('HGET', KEYS[2], uid)
  local oldmark = old and redis.call('HGET', KEYS[4], uid)
  local have, code = old and version(old, oldmark) or 0, '1'
  -- Of one version an end wins: the other side was made when the end was lost.
  local over = place == '' and old and string.byte(old, 1) == 1 and have == tonumber(base)
  if not over and (have == tonumber(becomes) or have == tonumber(base)) then
    code = '0'
  elseif have > tonumber(becomes) or (old and string.byte(old, 1) == 2 and not (string.byte(old, 2) == 6 and place == '' and string.byte(value, 2) == 4)) then
    code = '4'
  elseif redis.call('HEXISTS', KEYS[3], uid) == 1 then
    code = '3'
  else
    if old then
      code = '2'
      if string.byte(old, 1) == 2 then
        redis.call('ZREM', KEYS[9], uid)
        tally(topic(content(old)), 0, -1)
      else
        local parked = lane(oldmark)
        redis.call('ZREM', parked and ARGV[2] .. parked or KEYS[1], uid)
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
    if name ~= '' then call(uid, name, (struct.unpack('>I4', value, at))) end
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
