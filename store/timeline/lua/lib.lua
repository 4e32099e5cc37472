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

-- due is when a live packed message is due.
local function due(packed)
  return (struct.unpack('>i8', packed, 4))
end

-- first cuts a record for an answer that wants no body.
local function first(record)
  if string.byte(record, 1) == 1 then return meta(record) end
  if bit.band(string.byte(record, 3), 4) == 0 then return record end
  local at = 24 + string.byte(record, 24)
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
  return string.format('%.0f', due(packed) * 256 + 255 - string.byte(packed, 3))
end

-- effective is a live message's mark, uncertain where the certification leaves
-- a doubt: it was due by then, and may have been delivered without a trace.
local function effective(mark, packed)
  mark = mark or ''
  if doubt == 0 or due(packed) > doubt or string.byte(mark, 1) == 49 then return mark end
  if mark == '' then return '1:0:0:' end
  return '1' .. string.sub(mark, 2)
end

-- changes is how many changes a mark counts since acceptance.
local function changes(mark)
  return mark and tonumber(string.match(mark, '^%d+:%d+:(%d+):')) or 0
end

-- version is a record's: it counts a message's changes, its acceptance included.
local function version(record, mark)
  if string.byte(record, 1) == 2 then return (struct.unpack('>I4', record, 20)) end
  return 1 + changes(mark)
end

-- canceled is the record of a cancel of a live message; count is its version.
local function canceled(packed, now, uncertain, reason, count)
  local flags = uncertain and 1 or 0
  local tail = ''
  if bit.band(string.byte(packed, 2), 1) == 1 then
    flags = flags + 2
    tail = meta(packed)
  else
    reason = ''
  end
  return struct.pack('>BBBi8', 2, 4, flags, now) .. string.sub(packed, 4, 11) .. struct.pack('>I4B', count, #reason) .. reason .. tail
end

-- note writes one entry to the outbox: n changes in fields of so many bytes.
-- It tells the entry as "id size changes", what written.lua wants to hear again.
local function note(n, size, ...)
  size = size + #CONTEXT
  local told = string.format('%.0f %.0f', size, n)
  local id = redis.call('XADD', OUTBOX, '*', 'c', CONTEXT, 'z', told, ...)
  redis.call('HINCRBY', OUTBOXED, 'bytes', size)
  redis.call('HINCRBY', OUTBOXED, 'changes', n)
  return id .. ' ' .. told
end

-- field is where a name stands in the hash of names: the key is a part of it, so
-- that nothing grows with the number of keys that share an id.
local function field(id, key)
  return string.char(#key) .. key .. id
end

-- attempts walks the uids of a name, oldest first.
local function attempts(entries, visit)
  for at = 1, entries and #entries or 0, 18 do visit(string.sub(entries, at, at + 17)) end
end

-- keyed lists the keys of an id from the ZSET of names, whose members are a
-- length byte, the id and the key; at most limit and one more.
local function keyed(names, id, limit)
  local prefix = string.char(#id) .. id
  local found = redis.call('ZRANGEBYLEX', names, '[' .. prefix, '[' .. prefix .. string.rep('\255', 256), 'LIMIT', 0, limit + 1)
  for i, member in ipairs(found) do found[i] = string.sub(member, #prefix + 1) end
  return found
end

-- each calls fn(from, to) over 1..n in steps, since unpack has a limit.
local function each(n, step, fn)
  for from = 1, n, step do fn(from, math.min(from + step - 1, n)) end
end
