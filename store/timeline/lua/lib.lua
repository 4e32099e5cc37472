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

-- numbers are the refusals and the changes since acceptance that a mark counts, as
-- digits; 0 each where it cannot be read.
local function numbers(mark)
  local refusals, changed = string.match(mark or '', '^%d+:(%d+):(%d+):')
  if not refusals or #refusals > 10 or #changed > 10 then return '0', '0' end
  return refusals, changed
end

-- changes is how many changes a mark counts since acceptance.
local function changes(mark)
  local _, changed = numbers(mark)
  return tonumber(changed)
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

-- behind is the ZSET of what stands in a lane later than its own place, by that
-- place; prefix is that of the bucket's lanes, "{ns:b}:parked:".
local function behind(prefix, lane) return string.sub(prefix, 1, -8) .. 'behind:' .. lane end

-- leave takes a message that waits out of its order, the bucket's or that of the lane
-- which its mark names, and reports whether it stood there, as 1 or 0.
local function leave(due, prefix, mark, uid)
  local parked = lane(mark)
  if not parked then return redis.call('ZREM', due, uid) end
  redis.call('ZREM', behind(prefix, parked), uid)
  return redis.call('ZREM', prefix .. parked, uid)
end

-- placed reports whether a live message stands in its order or is in flight. One that
-- does not was claimed, and whoever claimed it could not read it.
local function placed(due, prefix, claimed, mark, uid)
  local parked = lane(mark)
  if redis.call('HEXISTS', claimed, uid) == 1 then return true end
  return redis.call('ZSCORE', parked and prefix .. parked or due, uid) ~= false
end

-- topic is where a packed message is due.
local function topic(packed)
  return string.sub(packed, 19, 18 + string.byte(packed, 18))
end

-- content is the packed message, or what remains of it, within the record of an end.
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

-- remains is what the record of an end keeps of a message: the meta part without
-- what is for deliveries only.
local function remains(packed)
  local flags = string.byte(packed, 2)
  if flags < 4 then return meta(packed) end
  local length = source(packed)
  return string.sub(packed, 1, 1) .. string.char(flags % 4) .. string.sub(packed, 3, 11)
    .. struct.pack('>I2', length) .. string.sub(packed, 14, length)
end

-- The states, as the records of ends have them; see scheduler.State.
local WAITING, IN_FLIGHT, CANCELED, DEAD = 1, 2, 4, 6

-- may reports whether the table of transitions has a step. MOVES stands before this
-- text and is made from scheduler.Transitions.
local function may(from, to, kind)
  return string.find(MOVES, string.format('|%d:%d:%d|', from, to, kind), 1, true) ~= nil
end

-- packs reports whether what the scripts read of a packed message stands within it.
local function packs(packed)
  if #packed < 20 or string.byte(packed, 1) ~= 1 then return false end
  local at = 18
  for _ = 1, 3 do at = at + 1 + (string.byte(packed, at) or #packed) end
  local flags, length = string.byte(packed, 2), struct.unpack('>I2', packed, 12)
  if flags % 2 == 1 then at = at + 16 end
  if bit.band(flags, 2) == 2 then at = at + 8 end
  if bit.band(flags, 4) == 4 then at = at + 18 end
  return at - 1 <= length and length <= #packed
end

-- sound reports whether the scripts can read a record, live or of an end. Whoever
-- reads more of one than its first byte asks before its first write: what a script
-- wrote stays when it raises.
local function sound(record)
  if string.byte(record, 1) ~= 2 then return packs(record) end
  local state, cause = string.byte(record, 2), string.byte(record, 24)
  if not cause or state <= IN_FLIGHT or state > DEAD then return false end
  if cause == 1 or cause > 1 and 2 + (string.byte(record, 26) or 255) > cause then return false end
  return packs(content(record))
end

-- standing is the state of a message by its record; a live one's is given. It is 0
-- where the record cannot be read.
local function standing(record, live)
  if not sound(record) then return 0 end
  return string.byte(record, 1) == 1 and live or string.byte(record, 2)
end

-- newer reports whether a newer tarry wrote a record, in a form that this one does not
-- know (codec.go).
local function newer(record)
  local form = string.byte(record, 1) or 0
  return form > 3 and form < 32
end

-- unsound is the error of a script that wrote nothing, for it met such a record.
local function unsound(uid, record)
  return redis.error_reply((newer(record) and 'NEWER' or 'UNREADABLE') .. ' record of ' .. uid)
end

-- refuse notes a step that was not made, in the hash of refusals: uid, and the step
-- and time. It is one that the table does not have, or it met a spoiled record, whose
-- hash is noted too, and from is 0. It keeps 1,000 messages, for a week after the
-- last was noted.
local function refuse(key, uid, from, to, kind, now, spoiled)
  if redis.call('HLEN', key) >= 1000 and redis.call('HEXISTS', key, uid) == 0 then return end
  local step = string.format('%d:%d:%d:%.0f', from, to, kind, tonumber(now))
  if spoiled then step = step .. ':' .. redis.sha1hex(spoiled) end
  redis.call('HSET', key, uid, step)
  redis.call('PEXPIRE', key, 604800000)
end

-- because is a cause of a kind, which may name another message. The names of the
-- kinds stand before this text: scheduler.Kind in capitals.
local function because(kind, other)
  return string.char(kind, #other) .. other
end

-- kind is what ended a message, by its record.
local function kind(record)
  return string.byte(record, 24) > 0 and string.byte(record, 25) or PLAIN
end

-- other is the message that the cause in the record of an end names.
local function other(record)
  return string.sub(record, 27, 26 + string.byte(record, 26))
end

-- canceled is the record of a cancel of a message, live or dead, that is packed;
-- count is its version.
local function canceled(packed, now, uncertain, cause, count)
  return struct.pack('>BBBi8', 2, 4, uncertain and 3 or 2, now) .. string.sub(packed, 4, 11)
    .. struct.pack('>I4B', count, #cause) .. cause .. remains(packed)
end

-- note writes one entry to the outbox: n changes in fields of so many bytes.
-- It returns the entry as "id size changes", which is written.lua's argument.
local function note(n, size, ...)
  size = size + #CONTEXT
  local told = string.format('%.0f %.0f', size, n)
  local id = redis.call('XADD', OUTBOX, '*', 'c', CONTEXT, 'z', told, ...)
  redis.call('HINCRBY', OUTBOXED, 'bytes', size)
  redis.call('HINCRBY', OUTBOXED, 'changes', n)
  return id .. ' ' .. told
end

-- made is when, in ms, the changes of an entry of the outbox were made, by the clock
-- of who made them; nil where the entry does not tell it. The id of an entry is no
-- time: it never goes back, and the clock of this server does.
local function made(entry)
  local name, context = entry[2][1], entry[2][2]
  if name ~= 'c' or #context < 9 or string.byte(context) ~= 1 then return nil end
  local at = struct.unpack('>i8', context, 2)
  return at >= 0 and at <= 2^53 and at or nil
end

-- counted is what an entry of the outbox counts, in bytes and changes. Of one that
-- does not tell it the bytes are those of its values.
local function counted(entry)
  local size, n = string.match(entry[2][4] or '', '^(%d+) (%d+)$')
  if size and #size < 16 and #n < 16 then return tonumber(size), tonumber(n) end
  size = 0
  for i = 2, #entry[2], 2 do size = size + #entry[2][i] end
  return size, 0
end

-- amended returns the outbox's form of a message that goes on waiting; given is its
-- packed form where the content changed, else ''.
local function amended(packed, mark, cause, given)
  mark = string.sub(mark, 1, 255)
  return '\3' .. string.sub(packed, 4, 11) .. string.char(#mark) .. mark .. string.char(#cause) .. cause .. given
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
      live, dead = (tonumber(live) or 0) + living[name], (tonumber(dead) or 0) + (dying[name] or 0)
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
-- k holds the keys msg and ended; log gets the changes for the outbox.
local function close(k, uid, packed, mark, now, cause, log)
  local uncertain = string.byte(effective(mark, packed), 1) == 49
  local ended = canceled(packed, tonumber(now), uncertain, cause, 2 + changes(mark))
  redis.call('HSET', k.msg, uid, ended)
  redis.call('RPUSH', k.ended, string.format('%013d', now) .. uid)
  log[#log + 1] = uid
  log[#log + 1] = ended
end

-- field is where a name stands in the hash of names and in the ZSET of the same:
-- topic and key are parts of it, so that nothing grows with the number of those that
-- share an id.
local function field(id, topic, key)
  return string.char(#id) .. id .. string.char(#topic) .. topic .. key
end

-- attempts walks the uids of a name, oldest first; past those that past walks: the
-- attempts before, which have ended and are remembered.
local function attempts(entries, visit)
  local n = entries and (string.find(entries, '/', 1, true) or #entries + 1) - 1 or 0
  for at = 1, n, 18 do visit(string.sub(entries, at, at + 17)) end
end
local function past(entries, visit)
  local from = entries and string.find(entries, '/', 1, true)
  for at = from and from + 1 or 1, from and #entries or 0, 18 do visit(string.sub(entries, at, at + 17)) end
end

-- joined is a name's value of the uids of its attempts and of those before.
local function joined(uids, before)
  return before == '' and uids or uids .. '/' .. before
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
  local at, kept, before = field(id, topic(packed), key), '', ''
  local entries = redis.call('HGET', name, at)
  attempts(entries, function(u) if u ~= uid then kept = kept .. u end end)
  past(entries, function(u) if u ~= uid then before = before .. u end end)
  if kept ~= '' then
    redis.call('HSET', name, at, joined(kept, before))
  else
    redis.call('HDEL', name, at)
    redis.call('ZREM', names, at)
  end
end

-- comeback looks after a message that comes back from its claim while another
-- push stands as the next one under its name. It reports whether the message, which
-- is uncertain or not and has the given mark, has ended; else it waits again. It is
-- called only where next exists, with a record that is sound; k holds keys by their
-- names, and the prefix of the lanes as parked. A later one that cannot be read stays
-- as it is, and still the next one: it is listed as refused.
local function comeback(k, uid, packed, uncertain, mark, now, log)
  local later = redis.call('HGET', k.next, uid)
  if not later then return false end
  if string.sub(later, 1, 1) == 'r' then
    redis.call('HDEL', k.next, uid)
    close(k, uid, packed, (uncertain and '1:0:' or '0:0:') .. string.format('%.0f', changes(mark)) .. ':', now,
      because(GAVE_WAY, ''), log)
    return true
  end
  later = string.sub(later, 2)
  local record = redis.call('HGET', k.msg, later)
  if record and not sound(record) then
    refuse(k.refused, later, 0, CANCELED, PLAIN, now, record)
    return false
  end
  redis.call('HDEL', k.next, uid)
  if not record or string.byte(record, 1) == 2 or redis.call('HEXISTS', k.claimed, later) == 1 then return false end
  local stands = redis.call('HGET', k.mark, later)
  leave(k.due, k.parked, stands, later)
  redis.call('HDEL', k.mark, later)
  redis.call('HDEL', k.next, later)
  close(k, later, record, stands, now, because(YIELDED, ''), log)
  tally(topic(record), -1)
  unname(k.name, k.names, record, later) -- the name is the earlier one's again
  return false
end

-- listed lists the fields of an id's names, on one topic where it is not empty: at
-- most limit, after the given one where that is not empty.
local function listed(names, id, topic, after, limit)
  local prefix = string.char(#id) .. id
  if topic ~= '' then prefix = prefix .. string.char(#topic) .. topic end
  local from = after ~= '' and '(' .. after or '[' .. prefix
  return redis.call('ZRANGEBYLEX', names, from, '[' .. prefix .. string.rep('\255', 512), 'LIMIT', 0, limit)
end
