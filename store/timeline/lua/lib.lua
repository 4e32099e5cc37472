-- Shared by the scripts: it stands before each of them in one text.

-- each calls fn(from, to) over 1..n in steps, since unpack has a limit.
local function each(n, step, fn)
  for from = 1, n, step do fn(from, math.min(from + step - 1, n)) end
end

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

-- lane is the lane that a mark names, nil for none.
local function lane(mark)
  return mark and string.match(mark, '^%d+:%d+:%d+:(.+)$')
end

-- topic is where a packed message is due.
local function topic(packed)
  return string.sub(packed, 19, 18 + string.byte(packed, 18))
end

-- content is the packed message, or its meta part, within the record of an end.
local function content(record)
  return string.sub(record, 25 + string.byte(record, 24))
end

-- source is how much of a packed message stands before its origin and retry
-- schedule, or before where these would stand.
local function source(packed)
  local at, flags = 18, string.byte(packed, 2)
  for _ = 1, 3 do at = at + 1 + string.byte(packed, at) end
  if flags % 2 == 1 then at = at + 16 end
  if bit.band(flags, 2) == 2 then at = at + 8 end
  return at - 1
end

-- remains is what the record of an end keeps of a named message: the meta part
-- without what is for deliveries only.
local function remains(packed)
  local flags = string.byte(packed, 2)
  if flags < 4 then return meta(packed) end
  local length = source(packed)
  return string.sub(packed, 1, 1) .. string.char(flags % 4) .. string.sub(packed, 3, 11) .. struct.pack('>I2', length) .. string.sub(packed, 14, length)
end

-- canceled is the record of a cancel of a message, live or dead, that is packed;
-- count is its version.
local function canceled(packed, now, uncertain, reason, count)
  local flags = uncertain and 1 or 0
  local tail = ''
  if bit.band(string.byte(packed, 2), 1) == 1 then
    flags = flags + 2
    tail = remains(packed)
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

-- amended is how the outbox tells of a message that goes on waiting; given is its
-- packed form where the content changed, else ''.
local function amended(packed, mark, reason, given)
  return '\3' .. string.sub(packed, 4, 11) .. string.char(#mark) .. mark .. string.char(#reason) .. reason .. given
end

-- tally notes that so many more messages of a topic live, and where it is given that
-- so many more are dead. count writes what was noted, see doc.go; what is none is
-- not kept.
local living, dying = {}, {}
local function tally(name, live, dead)
  living[name] = (living[name] or 0) + live
  if dead then dying[name] = (dying[name] or 0) + dead end
end
local function count(key)
  local names = {}
  for name, n in pairs(living) do
    if n ~= 0 or dying[name] then names[#names + 1] = name end
  end
  each(#names, 2000, function(from, to) -- a topic may be one message's own
    local held, set, none = redis.call('HMGET', key, unpack(names, from, to)), {}, {}
    for i = from, to do
      local name, value = names[i], held[i - from + 1] or '0'
      local live, dead = tonumber(value), 0
      if not live then live, dead = string.match(value, '^(%S+) (%S+)$') end
      live, dead = live + living[name], dead + (dying[name] or 0)
      if live == 0 and dead == 0 then
        none[#none + 1] = name
      else
        set[#set + 1] = name
        set[#set + 1] = dead == 0 and live or live .. ' ' .. dead
      end
    end
    if #none > 0 then redis.call('HDEL', key, unpack(none)) end
    if #set > 0 then redis.call('HSET', key, unpack(set)) end
  end)
end

-- close ends a message that the caller took out of where it stood, as canceled.
-- k holds the keys msg and ended; log gets what the outbox is told.
local function close(k, uid, packed, mark, now, reason, log)
  local uncertain = string.byte(effective(mark, packed), 1) == 49
  local ended = canceled(packed, tonumber(now), uncertain, reason, 2 + changes(mark))
  redis.call('HSET', k.msg, uid, ended)
  redis.call('RPUSH', k.ended, string.format('%013d', now) .. uid)
  log[#log + 1] = uid
  log[#log + 1] = ended
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

-- called is the id and key of a packed message, or of the meta part of one.
local function called(packed)
  local at = 19 + string.byte(packed, 18)
  local id = string.sub(packed, at + 1, at + string.byte(packed, at))
  at = at + 1 + #id
  return id, string.sub(packed, at + 1, at + string.byte(packed, at))
end

-- unname takes a uid from the name of its packed message.
local function unname(name, names, packed, uid)
  local id, key = called(packed)
  local at, kept = field(id, key), ''
  attempts(redis.call('HGET', name, at), function(u) if u ~= uid then kept = kept .. u end end)
  if kept ~= '' then
    redis.call('HSET', name, at, kept)
  else
    redis.call('HDEL', name, at)
    if key ~= '' then redis.call('ZREM', names, string.char(#id) .. id .. key) end
  end
end

-- comeback looks after a message that comes back from its claim while another
-- push stands as the next one under its name. It tells whether the message, which
-- is uncertain or not and has the given mark, has ended; else it waits again. It is
-- called only where next exists; k holds keys by their names, and the prefix of the
-- lanes as parked.
local function comeback(k, uid, packed, uncertain, mark, now, log)
  local later = redis.call('HGET', k.next, uid)
  if not later then return false end
  redis.call('HDEL', k.next, uid)
  if string.sub(later, 1, 1) == 'r' then
    close(k, uid, packed, (uncertain and '1:0:' or '0:0:') .. string.format('%.0f', changes(mark)) .. ':', now, 'replaced', log)
    return true
  end
  later = string.sub(later, 2)
  local record = redis.call('HGET', k.msg, later)
  if not record or string.byte(record, 1) == 2 or redis.call('HEXISTS', k.claimed, later) == 1 then return false end
  local stands = redis.call('HGET', k.mark, later)
  local parked = lane(stands)
  redis.call('ZREM', parked and k.parked .. parked or k.due, later)
  redis.call('HDEL', k.mark, later)
  redis.call('HDEL', k.next, later)
  close(k, later, record, stands, now, 'merged', log)
  tally(topic(record), -1)
  unname(k.name, k.names, record, later) -- the name is the earlier one's again
  return false
end

-- keyed lists the keys of an id from the ZSET of names, whose members are a
-- length byte, the id and the key; at most limit and one more.
local function keyed(names, id, limit)
  local prefix = string.char(#id) .. id
  local found = redis.call('ZRANGEBYLEX', names, '[' .. prefix, '[' .. prefix .. string.rep('\255', 256), 'LIMIT', 0, limit + 1)
  for i, member in ipairs(found) do found[i] = string.sub(member, #prefix + 1) end
  return found
end
