-- The library of the scripts: the loader (scripts.go) puts before each script the paragraphs whose functions it calls.
-- Keys have the names of a script's head in capitals (MSG, CLAIMED); states, kinds and forms have the names of
-- vocabulary in scripts.go (STATE_DEAD, KIND_PURGED, FORM_END). A script may call a function only if its head lists the
-- function's keys; a test checks every head.

-- each calls fn(from, to) over 1..n in steps, since unpack has a limit.
local function each(n, step, fn)
  for from = 1, n, step do fn(from, math.min(from + step - 1, n)) end
end

-- push appends two values to a list.
local function push(list, a, b)
  local n = #list
  list[n + 1] = a
  list[n + 2] = b
end

-- check lets a leader's script proceed under its term: it raises the stored term, or returns the error of a stale one.
-- The removal comes first, so that a full Redis does not refuse the raise.
local function check(term)
  local stored = redis.call('GET', TERM)
  if stored == term then return nil end
  if stored and tonumber(stored) > tonumber(term) then
    return redis.error_reply('STALE stored term ' .. stored .. ', given ' .. term)
  end
  redis.call('DEL', TERM)
  redis.call('SET', TERM, term)
  return nil
end

-- live reports whether a record is of a message that waits or is in flight.
local function live(record) return string.byte(record, 1) == FORM_MESSAGE end

-- state returns the state in the record of an end.
local function state(record) return string.byte(record, 2) end

-- uncertain reports whether a mark says that its message may have been delivered.
local function uncertain(mark) return (string.byte(mark, 1) or 48) % 2 == 1 end

-- handed reports whether a mark says that a consumer had the message and released it.
local function handed(mark) return (string.byte(mark or '', 1) or 48) > 49 end

-- doubtful reports whether the record of an end says that its message may have been delivered.
local function doubtful(record) return string.byte(record, 3) % 2 == 1 end

-- claimed returns the claim on a message, "term:number", or false.
local function claimed(uid) return redis.call('HGET', CLAIMED, uid) end

-- pulled reports whether a record is of a message that lives and that consumers pull.
local function pulled(record) return live(record) and bit.band(string.byte(record, 2) or 0, 16) == 16 end

-- holder returns the claim or the lease on a message with this record, or false.
local function holder(uid, record) return redis.call('HGET', pulled(record) and LEASE or CLAIMED, uid) end

-- head returns the lowest score of an order, or nil if it is empty.
local function head(key) return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] end

-- first_over returns when the first lease or time to live may be over, in ms, or '' if there is none.
local function first_over()
  local lapse, expiry = head(LEASING), head(EXPIRES)
  if not lapse and not expiry then return '' end
  return string.format('%.0f', math.min(tonumber(lapse or expiry), tonumber(expiry or lapse)))
end

-- meta returns the part of a packed message before its headers.
local function meta(packed)
  return string.sub(packed, 1, struct.unpack('>I2', packed, 12))
end

-- due returns when a live packed message is due.
local function due(packed)
  return (struct.unpack('>i8', packed, 4))
end

-- first returns a record without the body.
local function first(record)
  if live(record) then return meta(record) end
  if bit.band(string.byte(record, 3), 4) == 0 then return record end
  local at = 24 + string.byte(record, 24)
  return string.sub(record, 1, at + struct.unpack('>I2', record, at + 12))
end

-- digest returns a named message's digest.
local function digest(packed)
  local at = 18
  for _ = 1, 3 do at = at + 1 + string.byte(packed, at) end
  return string.sub(packed, at, at + 15)
end

-- remember_end appends the end of concatenated uids to the list from which Trim forgets.
local function remember_end(now, uids) redis.call('RPUSH', ENDED, string.format('%013d', now) .. uids) end

-- score returns a packed message's own place in the order, as text.
local function score(packed)
  return string.format('%.0f', due(packed) * 256 + 255 - string.byte(packed, 3))
end

-- effective returns a live message's mark. It is uncertain if the certification leaves a doubt: the message was due by
-- then, and may have been delivered without a trace.
local function effective(mark, packed)
  mark = mark or ''
  if doubt == 0 and doubt_pull == 0 then return mark end
  local since = pulled(packed) and doubt_pull or doubt
  if since == 0 or due(packed) > since or uncertain(mark) then return mark end
  if mark == '' then return '1:0:0:' end
  return (handed(mark) and '3' or '1') .. string.sub(mark, 2)
end

-- marked returns the mark of a message with this record, or ''.
local function marked(uid, record)
  local mark = redis.call('HGET', MARK, uid) or ''
  return live(record) and effective(mark, record) or mark
end

-- numbers returns the refusals and the changes since acceptance that a mark counts, as digits, or '0' for each if the
-- mark cannot be read.
local function numbers(mark)
  if not mark or mark == '' then return '0', '0' end
  local refusals, changed = string.match(mark, '^%d+:(%d+):(%d+):')
  if not refusals or #refusals > 10 or #changed > 10 then return '0', '0' end
  return refusals, changed
end

-- tried reports whether consumers had a message, or may have had it under a lease that the store has lost, since it was
-- due before the certification: then its uid never gets other content.
local function tried(record, mark)
  return pulled(record) and (numbers(mark) ~= '0' or handed(mark) or due(record) <= doubt)
end

-- changes returns how many changes since acceptance a mark counts.
local function changes(mark)
  local _, changed = numbers(mark)
  return tonumber(changed)
end

-- version returns a record's version: the number of a message's changes, its acceptance included.
local function version(record, mark)
  if string.byte(record, 1) == FORM_END then return (struct.unpack('>I4', record, 20)) end
  return 1 + changes(mark)
end

-- lane returns the lane that a mark names, or nil.
local function lane(mark)
  return mark and string.match(mark, '^%d+:%d+:%d+:([^%z]+)')
end

-- last returns what a mark says of the last lease that ended in vain, as it stands there, or ''.
local function last(mark) return string.match(mark or '', '%z.*$') or '' end

-- parked returns the ZSET of a lane. behind returns the ZSET of the messages that stand in the lane later than their
-- own place, ordered by their own place.
local function parked(name) return string.sub(GEN, 1, -4) .. 'parked:' .. name end
local function behind(name) return string.sub(GEN, 1, -4) .. 'behind:' .. name end

-- topic returns the topic of a packed message.
local function topic(packed)
  return string.sub(packed, 19, 18 + string.byte(packed, 18))
end

-- source returns the length of a packed message up to its origin and retry schedule, present or not.
local function source(packed)
  local at, flags = 18, string.byte(packed, 2)
  for _ = 1, 3 do at = at + 1 + string.byte(packed, at) end
  if flags % 2 == 1 then at = at + 16 end
  if bit.band(flags, 2) == 2 then at = at + 8 end
  return at - 1
end

-- queue returns the ZSET of a topic's messages for pull, in the order in which they are handed out, and rank the place
-- of a packed message in it. leases_of returns the ZSET of a topic's leases.
local function queue(on) return string.sub(GEN, 1, -4) .. 'pull:' .. on end

local function rank(packed) return string.format('%.0f', (255 - string.byte(packed, 3)) * 2 ^ 45 + due(packed)) end

local function leases_of(on) return string.sub(GEN, 1, -4) .. 'leased:' .. on end

-- content returns the packed message, or what remains of it, from the record of an end.
local function content(record)
  return string.sub(record, 25 + string.byte(record, 24))
end

-- digit returns the value of a uid's character. The first 41 bits of a uid are its time in ms since 2025, and the next
-- bit marks a uid of the intake.
local function digit(uid, i)
  return (string.find('0123456789abcdefghjkmnpqrstvwxyz', string.sub(uid, i, i), 1, true) or 1) - 1
end
local function intake(uid) return math.floor(digit(uid, 11) / 8) % 2 == 1 end
local function acceptance(uid)
  local ms = 0
  for i = 3, 10 do ms = ms * 32 + digit(uid, i) end
  return ms * 2 + math.floor(digit(uid, 11) / 16) + 1735689600000
end

-- follows reports whether a uid of the intake stands behind another one in the stream, by the low 22 bits of the
-- sequences. precedes orders uids by acceptance, as UID.Compare does.
local function place(uid)
  local low = digit(uid, 11) % 8
  for i = 12, 14 do low = low * 32 + digit(uid, i) end
  return low * 16 + math.floor(digit(uid, 15) / 2)
end
local function follows(uid, other)
  local ahead = (place(uid) - place(other)) % 4194304
  return ahead > 0 and ahead < 2097152
end
local function precedes(uid, other)
  if intake(uid) and intake(other) and math.abs(acceptance(uid) - acceptance(other)) <= 10000
    and place(uid) ~= place(other) then return follows(other, uid) end
  return uid < other
end

-- remains returns what the record of an end keeps of a message: the meta part without the fields that serve deliveries
-- only.
local function remains(packed)
  local flags = string.byte(packed, 2)
  local left = bit.band(flags, 83)
  if left == flags then return meta(packed) end
  local length = source(packed)
  return string.sub(packed, 1, 1) .. string.char(left) .. string.sub(packed, 3, 11)
    .. struct.pack('>I2', length) .. string.sub(packed, 14, length)
end

-- may reports whether the table of transitions, MOVES, has a step.
local function may(from, to, kind)
  return string.find(MOVES, string.format('|%d:%d:%d|', from, to, kind), 1, true) ~= nil
end

-- strange reports whether a packed message has a flag that this tarry does not know.
local function strange(packed) return live(packed) and (string.byte(packed, 2) or 0) > 127 end

-- packs reports whether the fields that the scripts read of a packed message lie within it.
local function packs(packed)
  local form, flags = string.byte(packed, 1, 2)
  if #packed < 20 or form ~= FORM_MESSAGE or flags > 127 then return false end
  local at, length = 18, struct.unpack('>I2', packed, 12)
  for _ = 1, 3 do at = at + 1 + (string.byte(packed, at) or #packed) end
  if flags % 2 == 1 then at = at + 16 end
  if flags % 16 > 1 or flags % 64 > 31 then -- most messages have none of these; each call costs as much as the rest
    if bit.band(flags, 2) == 2 then at = at + 8 end
    if bit.band(flags, 4) == 4 then at = at + 18 end
    if bit.band(flags, 32) == 32 then at = at + 4 end
  end
  return at - 1 <= length and length <= #packed
end

-- sound reports whether there is a record that the scripts can read, live or of an end. A script that reads more of a
-- record than its first byte calls sound before its first write, since Redis keeps the writes of a script that fails
-- later.
local function sound(record)
  if not record then return false end
  if string.byte(record, 1) ~= FORM_END then return packs(record) end
  local cause = string.byte(record, 24)
  if not cause or not ends(state(record)) then return false end
  if cause == 1 or cause > 1 and 2 + (string.byte(record, 26) or 255) > cause then return false end
  return packs(content(record))
end

-- standing returns the state of a message by its record, or none if the record cannot be read. alive is the state of
-- the message if it is live.
local function standing(record, alive)
  if not sound(record) then return STATE_NONE end
  return live(record) and alive or state(record)
end

-- newer reports whether a newer tarry wrote a record, in a form or with a flag that this one does not know (codec.go).
local function newer(record)
  local form = string.byte(record, 1) or 0
  if form == FORM_END then return #record > 24 and strange(content(record)) end
  return form > FORM_AMENDED and form < 32 or strange(record)
end

-- unsound returns the error for a record that cannot be read, of a script that has written nothing.
local function unsound(uid, record)
  return redis.error_reply((newer(record) and 'NEWER' or 'UNREADABLE') .. ' record of ' .. uid)
end

-- refuse records a refused step and its time under the message's uid. Either the table of transitions lacks the
-- step, or the record is spoiled: then from is none, and a digest of the record is added. At most 1,000 messages
-- are recorded, and all are forgotten a week after the last refusal.
local function refuse(uid, from, to, kind, now, spoiled)
  if redis.call('HLEN', REFUSED) >= 1000 and redis.call('HEXISTS', REFUSED, uid) == 0 then return end
  local step = string.format('%d:%d:%d:%.0f', from, to, kind, tonumber(now))
  if spoiled then step = step .. ':' .. redis.sha1hex(spoiled) end
  redis.call('HSET', REFUSED, uid, step)
  redis.call('PEXPIRE', REFUSED, 604800000)
end

-- because returns a cause of a kind, which may name another message.
local function because(kind, other)
  return string.char(kind, #other) .. other
end

-- kind returns the kind of the cause in the record of an end.
local function kind(record)
  return string.byte(record, 24) > 0 and string.byte(record, 25) or KIND_PLAIN
end

-- other returns the message that the cause in the record of an end names.
local function other(record)
  return string.sub(record, 27, 26 + string.byte(record, 26))
end

-- refused returns the refusals that the record of an end counts.
local function refused(record)
  if bit.band(string.byte(record, 3), 8) == 0 then return 0 end
  return (struct.unpack('>I4', record, 21 + string.byte(record, 24)))
end

-- ending returns the record for the end of a packed message, live or dead, in the state to. unsure is whether the
-- message may have been delivered, n its version, and refusals what its mark counts, nil for none. around returns what
-- stands in it around the message's own parts: a script that ends many alike makes it once. Refusals stand behind the
-- cause, within its length, where a tarry that does not know them takes them for text.
local function around(to, now, unsure, cause, n, refusals)
  local flags = (kept(to) and 4 or 2) + (unsure and 1 or 0)
  if tonumber(refusals or 0) > 0 then
    flags = flags + 8
    cause = (cause == '' and because(KIND_PLAIN, '') or string.sub(cause, 1, 251)) .. struct.pack('>I4', refusals)
  end
  return struct.pack('>BBBi8', FORM_END, to, flags, now), struct.pack('>I4B', n, #cause) .. cause
end
local function ending(to, packed, now, unsure, cause, n, refusals)
  local start, middle = around(to, now, unsure, cause, n, refusals)
  return start .. string.sub(packed, 4, 11) .. middle .. (kept(to) and packed or remains(packed))
end

-- note writes one entry to the outbox: n changes, in fields of size bytes. It returns the entry as "id size changes",
-- which is written.lua's argument, or '' if no outbox is kept.
local function note(n, size, ...)
  if CONTEXT == '' then return '' end
  size = size + #CONTEXT
  local extent = string.format('%.0f %.0f', size, n)
  local id = redis.call('XADD', OUTBOX, '*', 'c', CONTEXT, 'z', extent, ...)
  redis.call('HINCRBY', OUTBOXED, 'bytes', size)
  redis.call('HINCRBY', OUTBOXED, 'changes', n)
  return id .. ' ' .. extent
end

-- overfull returns the error of an outbox that holds limit bytes or more, or nil.
local function overfull(limit)
  local held = CONTEXT ~= '' and redis.call('HGET', OUTBOXED, 'bytes')
  if not held or tonumber(held) < tonumber(limit) then return nil end
  return redis.error_reply('BEHIND the outbox holds ' .. held .. ' bytes, the limit is ' .. limit)
end

-- made returns when, in ms, the changes of an entry of the outbox were made, by the clock of the instance that made
-- them, or nil if the entry does not say. The id of an entry cannot serve as its time: ids never go back, but this
-- server's clock can.
local function made(entry)
  local name, context = entry[2][1], entry[2][2]
  if name ~= 'c' or #context < 9 or string.byte(context) ~= 1 then return nil end
  local at = struct.unpack('>i8', context, 2)
  return at >= 0 and at <= 2^53 and at or nil
end

-- counted returns what an entry of the outbox counts, in bytes and changes. If the entry does not say, the bytes are
-- those of its values.
local function counted(entry)
  local size, n = string.match(entry[2][4] or '', '^(%d+) (%d+)$')
  if size and #size < 16 and #n < 16 then return tonumber(size), tonumber(n) end
  size = 0
  for i = 2, #entry[2], 2 do size = size + #entry[2][i] end
  return size, 0
end

-- amended returns the outbox's form of a message that continues to wait; given is its packed form if the content
-- changed, else ''.
local function amended(packed, mark, cause, given)
  mark = string.match(string.sub(mark, 1, 255), '^[^%z]*')
  return string.char(FORM_AMENDED) .. string.sub(packed, 4, 11) .. string.char(#mark) .. mark
    .. string.char(#cause) .. cause .. given
end

-- tally notes a change in how many messages of a topic live and, if dead is given, in how many are dead. count writes
-- the noted changes (see doc.go) and removes topics without messages.
local living, dying = {}, {}
local function tally(name, alive, dead)
  living[name] = (living[name] or 0) + alive
  if dead then dying[name] = (dying[name] or 0) + dead end
end
local function count()
  local names = {}
  for name, n in pairs(living) do
    if n ~= 0 or dying[name] then names[#names + 1] = name end
  end
  each(#names, 2000, function(from, to) -- each message may have a topic of its own
    local held, set, none = redis.call('HMGET', COUNTS, unpack(names, from, to)), {}, {}
    for i = from, to do
      local name, value = names[i], held[i - from + 1] or '0'
      local alive, dead = tonumber(value), 0
      if not alive then alive, dead = string.match(value, '^(%S+) (%S+)$') end
      alive, dead = (tonumber(alive) or 0) + living[name], (tonumber(dead) or 0) + (dying[name] or 0)
      if alive == 0 and dead == 0 then
        none[#none + 1] = name
      else
        push(set, name, dead == 0 and alive or alive .. ' ' .. dead)
      end
    end
    if #none > 0 then redis.call('HDEL', COUNTS, unpack(none)) end
    if #set > 0 then redis.call('HSET', COUNTS, unpack(set)) end
  end)
end

-- weigh notes in the counts that a record comes here (1) or goes (-1).
local function weigh(record, n)
  if not sound(record) then return end
  if live(record) then
    tally(topic(record), n)
  elseif kept(state(record)) then
    tally(topic(content(record)), 0, n)
  end
end

-- close ends a message, which the caller took out of its place, as canceled. It appends the change for the outbox to
-- log.
local function close(uid, packed, mark, now, cause, log)
  local unsure = uncertain(effective(mark, packed))
  local record = ending(STATE_CANCELED, packed, tonumber(now), unsure, cause, 2 + changes(mark),
    (numbers(mark)))
  redis.call('HSET', MSG, uid, record)
  remember_end(now, uid)
  push(log, uid, record)
end

-- field returns what stands for a name in the keys name and names. It includes topic and key, so that no value grows
-- with the number of messages that share an id.
local function field(id, on, key)
  return string.char(#id) .. id .. string.char(#on) .. on .. key
end

-- attempts calls visit with the uids of a name, oldest first. past does so with the attempts before those, which have
-- ended and are remembered.
local function attempts(entries, visit)
  local n = entries and (string.find(entries, '/', 1, true) or #entries + 1) - 1 or 0
  for at = 1, n, 18 do visit(string.sub(entries, at, at + 17)) end
end
local function past(entries, visit)
  local from = entries and string.find(entries, '/', 1, true)
  for at = from and from + 1 or 1, from and #entries or 0, 18 do visit(string.sub(entries, at, at + 17)) end
end

-- sole returns the uid and record of the one attempt that a name has, if that waits and was certainly not delivered.
local function sole(id, on, key)
  local entries = redis.call('HGET', NAME, field(id, on, key))
  if not entries or #entries > 18 and string.sub(entries, 19, 19) ~= '/' then return '' end
  local uid = string.sub(entries, 1, 18)
  local record = redis.call('HGET', MSG, uid)
  if not sound(record) or not live(record) or holder(uid, record) or uncertain(marked(uid, record)) then return '' end
  return uid, record
end

-- joined returns a name's value from the uids of its attempts and of its past attempts.
local function joined(uids, before)
  return before == '' and uids or uids .. '/' .. before
end

-- called returns the id and key of a packed message, or of the meta part of one.
local function called(packed)
  local at = 19 + string.byte(packed, 18)
  local id = string.sub(packed, at + 1, at + string.byte(packed, at))
  at = at + 1 + #id
  return id, string.sub(packed, at + 1, at + string.byte(packed, at))
end

-- expiry returns when the time to live of a message for pull is over, or nil if it has none.
local function expiry(packed)
  if bit.band(string.byte(packed, 2), 2) == 0 then return nil end
  return due(packed) + struct.unpack('>i8', packed, source(packed) - 7)
end

-- hasten records in hastened that the head of an order moved earlier. on is the topic of messages for pull, or '' for
-- the bucket.
local hastened = {}
local function hasten(on, at) push(hastened, on, string.format('%.0f', at)) end

-- await notes that a message of a topic is due at a time.
local function await(on, at)
  if redis.call('ZADD', PULLS, 'LT', 'CH', at, on) == 1 then hasten(on, at) end
end

-- Serial messages (flag 64) of one topic and key stand in a line. At most one of them has the key, in the hash serial:
-- the leased one, or the one that waits for its retry. The ZSET chain has the others that wait. While none has the key,
-- the first of these stands in the topic's queue, as the one that has it does while it waits. chained counts, by topic,
-- those that stand behind.
local function serial(packed) return bit.band(string.byte(packed, 2), 64) == 64 end

local function line(packed)
  local on, _, key = topic(packed), called(packed)
  local keys, name = string.sub(GEN, 1, -4), on .. '\0' .. key
  return keys .. 'chain:' .. name, keys .. 'serial', name
end

local function stand_behind(on, n)
  local key = string.sub(GEN, 1, -4) .. 'chained'
  if redis.call('HINCRBY', key, on, n) <= 0 then redis.call('HDEL', key, on) end
end

-- promote lets the first of a line stand in the queue. One that cannot be read stands in no line: it is restored anew.
local function promote(on, chain)
  local next = redis.call('ZRANGE', chain, 0, 0)[1]
  while next do
    local record = redis.call('HGET', MSG, next)
    stand_behind(on, -1)
    if sound(record) and pulled(record) then
      redis.call('ZADD', queue(on), rank(record), next)
      return await(on, due(record))
    end
    redis.call('ZREM', chain, next)
    next = redis.call('ZRANGE', chain, 0, 0)[1]
  end
end

-- step_out takes a serial message out of its line, in which it has the key or waits. stood says that it stood in the
-- queue.
local function step_out(packed, uid, stood)
  local chain, held, name = line(packed)
  if redis.call('HGET', held, name) == uid then
    redis.call('HDEL', held, name)
  elseif redis.call('ZREM', chain, uid) == 0 then
    return -- it waits for the leader, past its time to live
  elseif not stood then
    return stand_behind(topic(packed), -1)
  end
  promote(topic(packed), chain)
end

-- line_up puts a serial message that waits into its line, and reports whether it is to stand in the queue. A key whose
-- message has gone with its record is free.
local function line_up(packed, uid)
  local chain, held, name = line(packed)
  local on, has = topic(packed), redis.call('HGET', held, name)
  if has and redis.call('HEXISTS', LEASE, has) == 0 and not redis.call('ZSCORE', PULL, has) then
    redis.call('HDEL', held, name)
    has = false
  end
  local front = redis.call('ZRANGE', chain, 0, 0)[1]
  if front and not has and not redis.call('ZSCORE', queue(on), front) then
    promote(on, chain)
    front = redis.call('ZRANGE', chain, 0, 0)[1]
  end
  redis.call('ZADD', chain, score(packed), uid)
  if has or redis.call('ZRANGE', chain, 0, 0)[1] ~= uid then
    stand_behind(on, 1)
    return false
  end
  if front and redis.call('ZREM', queue(on), front) == 1 then stand_behind(on, 1) end
  return true
end

-- offer puts a message for pull into its orders. expires is the end of its time to live, or nil. has is whether it
-- has its key, if it is serial.
local function offer(packed, uid, expires, has)
  local on, at = topic(packed), due(packed)
  redis.call('ZADD', PULL, score(packed), uid)
  if expires then redis.call('ZADD', EXPIRES, expires, uid) end
  if serial(packed) and not has and not line_up(packed, uid) then return end
  redis.call('ZADD', queue(on), rank(packed), uid)
  await(on, at)
end

-- withdraw removes a message for pull from its orders. packed is nil if it cannot be read. It returns 1 if the message
-- was in them, else 0.
local function withdraw(on, uid, packed)
  local from = queue(on)
  local stood = redis.call('ZREM', from, uid) == 1
  redis.call('ZREM', EXPIRES, uid)
  if packed and serial(packed) then step_out(packed, uid, stood) end
  if redis.call('EXISTS', from) == 0 then redis.call('ZREM', PULLS, on) end
  return redis.call('ZREM', PULL, uid)
end

-- unlease removes the lease of a message.
local function unlease(on, uid)
  local from = leases_of(on)
  redis.call('HDEL', LEASE, uid)
  redis.call('ZREM', from, uid)
  if redis.call('EXISTS', from) == 0 then redis.call('ZREM', LEASING, on) end
end

-- enter puts a message that waits in no lane into its order. before is the head of the bucket's own order before the
-- message left it, or nil. expires, which may be nil, is the end of its time to live if that does not follow from when
-- it is due.
local function enter(packed, uid, before, expires)
  if pulled(packed) then return offer(packed, uid, expires or expiry(packed)) end
  local at = score(packed)
  before = before or head(DUE)
  redis.call('ZADD', DUE, at, uid)
  if not before or tonumber(at) < tonumber(before) then hasten('', due(packed)) end
end

-- leave removes a waiting message from its order: those for pull, the bucket's, or that of the lane in its mark. It
-- returns 1 if the message was in that order, else 0.
local function leave(record, mark, uid)
  if pulled(record) then return withdraw(topic(record), uid, record) end
  local aside = lane(mark)
  if not aside then return redis.call('ZREM', DUE, uid) end
  redis.call('ZREM', behind(aside), uid)
  return redis.call('ZREM', parked(aside), uid)
end

-- take_out removes a waiting message that is about to end from every key but msg.
local function take_out(record, mark, uid)
  leave(record, mark, uid)
  redis.call('HDEL', MARK, uid)
  redis.call('HDEL', NEXT, uid)
end

-- placed reports whether a live message stands in its order or is in flight. A message that does neither was claimed by
-- a leader that could not read it.
local function placed(record, mark, uid)
  local aside = lane(mark)
  return holder(uid, record)
    or redis.call('ZSCORE', pulled(record) and PULL or aside and parked(aside) or DUE, uid) ~= false
end

-- unname removes a uid from the name of its packed message.
local function unname(packed, uid)
  local id, key = called(packed)
  local at, kept, before = field(id, topic(packed), key), '', ''
  local entries = redis.call('HGET', NAME, at)
  attempts(entries, function(u) if u ~= uid then kept = kept .. u end end)
  past(entries, function(u) if u ~= uid then before = before .. u end end)
  if kept ~= '' then
    redis.call('HSET', NAME, at, joined(kept, before))
  else
    redis.call('HDEL', NAME, at)
    redis.call('ZREM', NAMES, at)
  end
end

-- comeback handles a message that returns from its claim while another push stands as the next one under its name.
-- unsure is whether the message may have been delivered. comeback reports whether the message has ended; otherwise it
-- waits again. The caller ensures that next exists and that the record is sound. If the later message cannot be read,
-- it is listed as refused and is still the next one. why, which may be nil, is the cause if the message ends. A message
-- that was discarded has 'd' for a later one, and ends.
local function comeback(uid, packed, unsure, mark, now, log, why)
  local later = redis.call('HGET', NEXT, uid)
  if not later then return false end
  if later == 'd' or string.sub(later, 1, 1) == 'r' then
    redis.call('HDEL', NEXT, uid)
    redis.call('HDEL', MARK, uid)
    close(uid, packed, (unsure and '1:' or '0:') .. table.concat({numbers(mark)}, ':') .. ':', now,
      why or because(KIND_GAVE_WAY, ''), log)
    tally(topic(packed), -1)
    return true
  end
  later = string.sub(later, 2)
  local record = redis.call('HGET', MSG, later)
  if record and not sound(record) then
    refuse(later, STATE_NONE, STATE_CANCELED, KIND_PLAIN, now, record)
    return false
  end
  redis.call('HDEL', NEXT, uid)
  if not record or not live(record) or holder(later, record) then return false end
  local stands = redis.call('HGET', MARK, later)
  take_out(record, stands, later)
  close(later, record, stands, now, because(KIND_YIELDED, ''), log)
  tally(topic(record), -1)
  unname(record, later) -- the name belongs to the earlier one again
  return false
end

-- listed returns the fields of an id's names, on one topic unless topic is empty: at most limit, after the field after
-- unless that is empty.
local function listed(id, on, after, limit)
  local prefix = string.char(#id) .. id
  if on ~= '' then prefix = prefix .. string.char(#on) .. on end
  local from = after ~= '' and '(' .. after or '[' .. prefix
  return redis.call('ZRANGEBYLEX', NAMES, from, '[' .. prefix .. string.rep('\255', 512), 'LIMIT', 0, limit)
end

-- after returns how many members of an order stand at or before a place in it. The place is found by binary search: it
-- costs the same wherever it is, however many members share its score, and whether or not its member is still there.
local function after(key, at, uid)
  local from, to = redis.call('ZCOUNT', key, '-inf', '(' .. at), redis.call('ZCOUNT', key, '-inf', at)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= uid then from = middle + 1 else to = middle end
  end
  return from
end

-- stretches calls visit with the first score of each stretch of a queue, the part of one priority, and with the score
-- at which messages of that priority and due time 0 would stand, until visit returns true.
local function stretches(key, visit)
  local from, stop = '-inf', false
  while not stop do
    local top = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if not top then return end
    local base = math.floor(tonumber(top) / 2 ^ 45) * 2 ^ 45
    from = string.format('%.0f', base + 2 ^ 45)
    stop = visit(tonumber(top), base)
  end
end

-- ready returns the uids of the first n ready messages of a queue; with 'WITHSCORES' each is followed by its score,
-- which costs Redis more than the rest.
local function ready(key, now, n, ...)
  local found, scores, wanted = {}, {...}, n * (1 + select('#', ...))
  stretches(key, function(top, base)
    if top - base <= now then
      local got = redis.call('ZRANGEBYSCORE', key, string.format('%.0f', base), string.format('%.0f', base + now),
        'LIMIT', 0, n - #found * n / wanted, unpack(scores))
      for _, v in ipairs(got) do found[#found + 1] = v end
    end
    return #found >= wanted
  end)
  return found
end

-- correct sets a topic's time in pulls to when its next message is due. It returns that time, or nil if none waits.
local function correct(on)
  local least
  stretches(queue(on), function(top, base)
    if not least or top - base < least then least = top - base end
  end)
  redis.call('ZREM', PULLS, on)
  if least then redis.call('ZADD', PULLS, least, on) end
  return least
end

-- derive rebuilds what pulls, leasing and lanes say of an order after members moved between buckets.
local function derive(name, key)
  local order, on = string.match(name, '^(%l+):(.*)$')
  if order == 'pull' then
    correct(on)
  elseif order == 'leased' then
    local earliest = head(key)
    redis.call('ZREM', LEASING, on)
    if earliest then redis.call('ZADD', LEASING, earliest, on) end
  elseif order == 'parked' then
    redis.call(redis.call('EXISTS', key) == 1 and 'SADD' or 'SREM', LANES, on)
  end
end

-- grant returns the hash of what a nonce was granted.
local function grant(nonce) return string.sub(GEN, 1, -4) .. 'grant:' .. nonce end
