-- add stores a batch of pushes of one bucket, all or none.
-- KEYS 1 due  2 msg  3 name  4 tomb  5 claimed  6 mark  7 ended  8 names  9 big
-- ARGV 1 now in ms  2 limit of the outbox in bytes, then for each push: uid, score,
--      packed message, name
--      name is empty for a push without an id, else: a length byte and the id, a
--      length byte and the key, the intake sequence in decimal (0 for other doors)
-- Result: the earliest score when the batch made it earlier, else ''; the entries
--      of the outbox, a line each; then for each push that is not simply new: index, code (1 added as canceled, 2 duplicate,
--      3 conflict), uid, record without body, '1' when claimed, mark
-- A consumer's retry stands under its name beside the attempts before it that
-- still live: a cancel by that name must find them all.
-- Outbox: uid and packed message of each new push; one that is canceled follows
--      with the record of that.
-- Twice: the second time every push is a duplicate of itself.
local now, n = ARGV[1], (#ARGV - 2) / 4
local result = {'', ''}
local uids, known = {}, {}
for i = 1, n do uids[i] = ARGV[4 * i - 1] end
each(n, 1000, function(from, to)
  local got = redis.call('HMGET', KEYS[2], unpack(uids, from, to))
  for i = from, to do if got[i - from + 1] then known[uids[i]] = got[i - from + 1] end end
end)

local fresh = {}    -- uid → packed, of this batch
local named = {}    -- field → attempts as this batch leaves them
local index = {}    -- names with a key, for look-ups by the id alone
local set, order, gone = {}, {}, {}
local log = set     -- what the outbox gets: the same, unless something is canceled at once
local lowest, big

local function tell(i, code, uid)
  local record = known[uid] or fresh[uid]
  local claimed = redis.call('HEXISTS', KEYS[5], uid) == 1 and '1' or ''
  local mark = redis.call('HGET', KEYS[6], uid) or ''
  if string.byte(record, 1) == 1 then mark = effective(mark, record) end
  for _, v in ipairs({tostring(i), code, uid, first(record), claimed, mark}) do result[#result + 1] = v end
end

-- lives tells whether a message that was there before this push waits or is in
-- flight.
local function lives(uid)
  local record = known[uid] or fresh[uid] or redis.call('HGET', KEYS[2], uid)
  return record and string.byte(record, 1) == 1
end

-- earlier judges a push against the last message that has its name. It answers
-- nil when the push is a message of its own.
local function earlier(uid, packed)
  local record = known[uid]
  if not record then
    record = fresh[uid] or redis.call('HGET', KEYS[2], uid)
    if not record then return nil end
    if not fresh[uid] then known[uid] = record end
  end
  local attempt = struct.unpack('>I4', packed, 14)
  local ended, old = string.byte(record, 1) == 2, record
  if ended then
    if string.byte(record, 2) ~= 3 then return '3' end -- it did not end by delivery
    old = string.sub(record, 25 + string.byte(record, 24))
  end
  local before = struct.unpack('>I4', old, 14)
  if attempt > before then
    if ended or redis.call('HEXISTS', KEYS[5], uid) == 1 then return nil end
    local mark = effective(redis.call('HGET', KEYS[6], uid), record)
    if string.byte(mark, 1) == 49 then return nil end
  elseif attempt < before then
    return '2'
  end
  return digest(old) == digest(packed) and '2' or '3'
end

-- buried tells whether a younger cancel waits for this push.
local function buried(id, key, sequence)
  if sequence == 0 then return false end
  for _, field in ipairs({'a' .. id, 'k' .. string.char(#key) .. key .. id}) do
    local tomb = redis.call('HGET', KEYS[4], field)
    if tomb and tonumber(string.match(tomb, '^%d+')) >= sequence then return true end
  end
  return false
end

for i = 1, n do
  local uid, packed, name = uids[i], ARGV[4 * i + 1], ARGV[4 * i + 2]
  local score = ARGV[4 * i]
  if known[uid] or fresh[uid] then
    tell(i, '2', uid)
  else
    local id, key, at, entries, last, code
    if name ~= '' then
      local a = string.byte(name, 1)
      local b = string.byte(name, a + 2)
      id, key = string.sub(name, 2, a + 1), string.sub(name, a + 3, a + 2 + b)
      local sequence = tonumber(string.sub(name, a + 3 + b))
      at = field(id, key)
      entries = named[at] or redis.call('HGET', KEYS[3], at)
      attempts(entries, function(u) last = u end)
      if last then code = earlier(last, packed) end
      if not code and buried(id, key, sequence) then code = '1' end
    end
    if code == '2' or code == '3' then
      tell(i, code, last)
    else
      if id then
        local kept = ''
        attempts(entries, function(u) if lives(u) then kept = kept .. u end end)
        named[at] = kept .. uid
        if key ~= '' and not entries then
          index[#index + 1] = '0'
          index[#index + 1] = string.char(#id) .. id .. key
        end
      end
      local value = packed
      if code == '1' then
        value = canceled(packed, tonumber(now), false, 'canceled before it was accepted', 2)
        if log == set then log = {unpack(set)} end
        log[#log + 1] = uid
        log[#log + 1] = packed
        gone[#gone + 1] = uid
        known[uid] = value
        tell(i, '1', uid)
      else
        fresh[uid] = packed
        order[#order + 1] = score
        order[#order + 1] = uid
        if not lowest or tonumber(score) < lowest then lowest = tonumber(score) end
      end
      set[#set + 1] = uid
      set[#set + 1] = value
      if log ~= set then
        log[#log + 1] = uid
        log[#log + 1] = value
      end
      big = big or #value > 16384
    end
  end
end
if #set == 0 then return result end
if CONTEXT ~= '' then
  local held = redis.call('HGET', OUTBOXED, 'bytes')
  if held and tonumber(held) >= tonumber(ARGV[2]) then
    return redis.error_reply('BEHIND the outbox holds ' .. held .. ' bytes, the limit is ' .. ARGV[2])
  end
end

local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
each(#set, 2000, function(from, to) redis.call('HSET', KEYS[2], unpack(set, from, to)) end)
each(#order, 2000, function(from, to) redis.call('ZADD', KEYS[1], unpack(order, from, to)) end)
for at, entries in pairs(named) do redis.call('HSET', KEYS[3], at, entries) end
each(#index, 2000, function(from, to) redis.call('ZADD', KEYS[8], unpack(index, from, to)) end)
if big then redis.call('SET', KEYS[9], '1') end
if #gone > 0 then redis.call('RPUSH', KEYS[7], string.format('%013d', now) .. table.concat(gone)) end
if lowest and (not head or lowest < tonumber(head)) then result[1] = string.format('%.0f', lowest) end
if CONTEXT ~= '' then
  local entries = {}
  each(#log, 2000, function(from, to)
    local size = 0
    for i = from, to do size = size + #log[i] end
    entries[#entries + 1] = note((to - from + 1) / 2, size, unpack(log, from, to))
  end)
  result[2] = table.concat(entries, '\n')
end
return result
