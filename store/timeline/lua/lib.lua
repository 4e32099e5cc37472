-- Shared by the scripts: it stands before each of them in one text.

-- check lets a leader's script go on under its term: it answers the error of a
-- stale term, or raises the stored one. The removal comes first, so that a full
-- Redis does not refuse the raise.
local function check(key, term)
  local stored = redis.call('GET', key)
  if stored == term then return nil end
  if stored and tonumber(stored) > tonumber(term) then
    return redis.error_reply('STALE stored term ' .. stored .. ', given ' .. term)
  end
  redis.call('DEL', key)
  redis.call('SET', key, term)
  return nil
end

-- meta is the part of a packed message before its headers.
local function meta(packed)
  return string.sub(packed, 1, struct.unpack('>I2', packed, 12))
end

-- first cuts a record for an answer that wants no body.
local function first(record)
  if string.byte(record, 1) == 1 then return meta(record) end
  if bit.band(string.byte(record, 3), 4) == 0 then return record end
  local at = 20 + string.byte(record, 20)
  return string.sub(record, 1, at + struct.unpack('>I2', record, at + 12))
end

-- digest is the place of a named message's digest.
local function digest(packed)
  local at = 18
  for _ = 1, 3 do at = at + 1 + string.byte(packed, at) end
  return string.sub(packed, at, at + 15)
end

-- score is a packed message's own place in the order, as text.
local function score(packed)
  local due = struct.unpack('>i8', packed, 4)
  return string.format('%.0f', due * 256 + 255 - string.byte(packed, 3))
end

-- canceled is the record of a cancel of a live message.
local function canceled(packed, now, uncertain, reason)
  local flags = uncertain and 1 or 0
  local tail = ''
  if bit.band(string.byte(packed, 2), 1) == 1 then
    flags = flags + 2
    tail = meta(packed)
  else
    reason = ''
  end
  return struct.pack('>BBBi8', 2, 4, flags, now) .. string.sub(packed, 4, 11) .. string.char(#reason) .. reason .. tail
end

-- names walks the entries of a client id: calls visit(uid, key) until it
-- answers true.
local function names(entries, visit)
  local at = 1
  while entries and at <= #entries do
    local uid = string.sub(entries, at, at + 17)
    local n = string.byte(entries, at + 18)
    if visit(uid, string.sub(entries, at + 19, at + 18 + n)) then return end
    at = at + 19 + n
  end
end

-- each calls fn(from, to) over 1..n in steps, since unpack has a limit.
local function each(n, step, fn)
  for from = 1, n, step do fn(from, math.min(from + step - 1, n)) end
end
