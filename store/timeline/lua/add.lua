-- add stores a batch of pushes of one bucket, all or none.
-- KEYS due msg name tomb claimed mark ended names big next counts refused pull pulls lease expires calls called
-- ARGV 1 now in ms  2 limit of the outbox in bytes  3 limit of the calls  4 how many topics;
--      for each topic: name, how many pushes; then for each push:
--      uid and, of a push with a call, that; score ('' of a message for pull), packed message, name
--      name is for a push with an id: a length byte and the id, a
--      length byte and the key, the intake sequence in decimal (0 for a push by other means),
--      and for a push that merges: k (keep), r (replace) or d (debounce), the
--      longest wait of debounce in ms, 0 for none, and after a colon each the times
--      since which sequences compare and at which it was stored, 0 for unknown. Where the
--      journal must judge the push while the bucket is filled, ! and the certification
--      under which it did follow, 0 for none; without an id they are all, or name is empty
-- Result: which orders begin earlier (lib.lua, hasten); the entries of the
--      outbox, one a line; the number of fields of the outbox that follow
--      (0 if nothing merged), and these, '' for the packed message of a push; then
--      for each push that is not simply new: index, code (1 added as canceled, 2
--      duplicate, 3 conflict, 4 merged, 5 refused as uncertain,
--      6 a record under its uid or name cannot be read, 7 being filled, 8 too many calls), uid,
--      record without body ('' for 6, 7 and 8),
--      '1' when claimed, mark
-- A consumer's retry stands under its name beside the earlier attempts that still live: a cancel by that name must find
-- them all. So is the next message under a name (doc.go, Merging). Behind them stand the last 32 attempts that have
-- ended, to recognize repeated pushes of theirs.
-- Outbox: uid and packed message of each new push; if it is canceled, then uid and
--      record of the cancel; uid and amended form of a message that a push was
--      merged into, or the record of its end if it gave way. The record of a push that
--      merged is not in it: the change is one of the other message.
-- A call is kept with the uid of its push for CALL_KEEP to twice that. calls and called are begun in turn, each for
-- twice CALL_KEEP: once the one has less than CALL_KEEP left, the other has expired, and takes the calls.
-- Twice: the second time every push is a duplicate of itself, or already merged.
local now, base = ARGV[1], 4 + 2 * tonumber(ARGV[4])
local n = (#ARGV - base) / 4
local answers = {}
local uids, known = {}, {}
local calls, earlier_calls, kept_calls, room = {}, {}, {}, 0 -- by push; call → uid, both what came before and of this
for i = 1, n do
  local uid = ARGV[base + 4 * i - 3]
  if #uid > 18 then
    calls[i], uid = string.sub(uid, 19), string.sub(uid, 1, 18)
    kept_calls[#kept_calls + 1] = calls[i]
  end
  uids[i] = uid
end
local book, begins -- the key that takes the calls
if #kept_calls > 0 then
  local a, b = redis.call('PTTL', CALLS), redis.call('PTTL', CALLED)
  begins = math.max(a, b) < CALL_KEEP
  book = (a > b) ~= begins and CALLS or CALLED
  room = tonumber(ARGV[3]) - redis.call('HLEN', book)
  for _, key in ipairs({CALLED, CALLS}) do
    each(#kept_calls, 1000, function(from, to)
      local got = redis.call('HMGET', key, unpack(kept_calls, from, to))
      for i = from, to do
        if got[i - from + 1] then earlier_calls[kept_calls[i]] = got[i - from + 1] end
      end
    end)
  end
  kept_calls = {}
end
each(n, 1000, function(from, to)
  local got = redis.call('HMGET', MSG, unpack(uids, from, to))
  for i = from, to do if got[i - from + 1] then known[uids[i]] = got[i - from + 1] end end
end)

local fresh = {}    -- uid → packed, of this batch
local named = {}    -- field → attempts as this batch leaves them
local index = {}    -- new names, for look-ups without a topic or key
local set, order, gone = {}, {}, {}
local log = set     -- fields for the outbox: those of set, unless a push is canceled or merged
local offers = {}   -- uids of this batch that were for pull when they came
local marks, nexts, leaving = {}, {}, {} -- changes by merging: uid → mark, uid → next; record, mark and uid
local over = {} -- record, mark and uid of those that gave way
local plain, merged = true, false
local lowest, big

-- refer answers push i with a message that was there before.
local function refer(i, code, uid)
  local record = known[uid] or fresh[uid]
  push(answers, tostring(i), code)
  push(answers, uid, first(record))
  push(answers, holder(uid, record) and '1' or '', marks[uid] and effective(marks[uid], record) or marked(uid, record))
end

-- stands returns the record of a message, with the changes of this batch.
local function stands(uid)
  local record = known[uid] or fresh[uid]
  if not record then
    record = redis.call('HGET', MSG, uid)
    if record then known[uid] = record end
  end
  return record
end

-- alone answers a push that fails alone.
local function alone(i, code, uid)
  push(answers, tostring(i), code)
  push(answers, uid, '')
  push(answers, '', '')
end

-- unreadable answers a push that met a damaged record.
local function unreadable(i, uid)
  refuse(uid, STATE_NONE, STATE_WAITING, KIND_PLAIN, now, known[uid])
  alone(i, '6', uid)
end

-- damaged returns the oldest attempt under a name that cannot be read, or nil.
local function damaged(entries)
  local bad
  attempts(entries, function(u)
    if not bad and stands(u) and not fresh[u] and not sound(stands(u)) then bad = u end
  end)
  return bad
end

-- lives reports whether a message that was stored before this push waits or is in flight.
local function lives(uid)
  local record = stands(uid)
  return record and live(record)
end

-- separate makes log a list of its own: until then it is the list set.
local function separate()
  if log == set then log = {unpack(set)} end
end

-- contents returns the packed message of a record, or what remains of it.
local function contents(record)
  return live(record) and record or content(record)
end

-- repeats reports whether a push repeats an attempt under its name: one with its number and its content. The content of
-- a forgotten attempt is unknown, so no push is taken for a repeat of one.
local function repeats(entries, attempt, packed)
  local found = false
  local function compare(u)
    local record = stands(u)
    local old = record and sound(record) and contents(record)
    if old and struct.unpack('>I4', old, 14) == attempt and digest(old) == digest(packed) then found = true end
  end
  attempts(entries, compare)
  past(entries, compare)
  return found
end

-- earlier judges a push against the last message under its name. It returns nil if the push is a message of its own.
local function earlier(entries, uid, packed)
  local record = stands(uid)
  if not record then return nil end
  local attempt = struct.unpack('>I4', packed, 14)
  local ended, old = not live(record), record
  if ended then old = content(record) end
  local before = struct.unpack('>I4', old, 14)
  -- The message ended other than by delivery. Only a consumer's retry with its number or a lower one is judged
  -- further: it may repeat a stored attempt.
  if ended and state(record) ~= STATE_DELIVERED and (attempt <= 1 or attempt > before) then return '3' end
  if attempt > before then
    if ended or holder(uid, record) then return nil end
    local mark = effective(redis.call('HGET', MARK, uid), record)
    if uncertain(mark) then return nil end
  elseif attempt < before then
    return repeats(entries, attempt, packed) and '2' or '3'
  end
  return digest(old) == digest(packed) and '2' or '3'
end

-- buried reports whether a later cancel waits for this push. A push that was stamped later than the cancel was not
-- there yet, whatever its sequence: a stream that was made anew counts from 1. The servers of a cluster may stamp by
-- clocks two seconds apart.
local function buried(uid, id, topic, key, sequence)
  if sequence == 0 then return false end
  for _, field in ipairs({'a' .. field(id, topic, ''), 'k' .. field(id, topic, key)}) do
    local last, laid = string.match(redis.call('HGET', TOMB, field) or '', '^(%d+):(%d+)$')
    if last and tonumber(last) >= sequence and acceptance(uid) <= tonumber(laid) + 2000 then return true end
  end
  return false
end

-- origin returns the push whose content a message has.
local function origin(uid, packed)
  if bit.band(string.byte(packed, 2), 4) == 0 then return uid end
  local at = source(packed)
  return string.sub(packed, at + 1, at + 18)
end

-- older reports whether a push was stored before the push other, as Message.Older does.
local function older(uid, other, since, stored)
  if not intake(uid) then return false end
  if not intake(other) then return stored > 0 and stored < acceptance(other) end
  if acceptance(other) < since then return uid < other end
  return follows(other, uid)
end

-- given returns a push's content under the uid of the message old. It is due at its own time or, if wait is set, at
-- most wait ms after old was accepted, but not before now.
local function given(uid, packed, into, old, wait)
  local time = due(packed)
  if wait > 0 then time = math.min(time, math.max(acceptance(into) + wait, tonumber(now))) end
  local at = source(packed)
  return string.char(FORM_MESSAGE, string.byte(packed, 2) + 4) .. string.sub(packed, 3, 3)
    .. struct.pack('>i8I2', time, struct.unpack('>I2', packed, 12) + #uid)
    .. string.sub(old, 14, 17) .. string.sub(packed, 18, at) .. uid .. string.sub(packed, at + 1)
end

-- merge merges a push into a message that is certain to wait. The content of one of the two stays: keep takes the
-- first, the other modes the last. early says that the push was stored before the content. A push that replaces the
-- later of two messages also replaces the earlier one, which stands before it in the name's list.
--
-- What consumers have tried keeps its content: they may skip a uid that they know. It ends where a push replaces it,
-- and merge returns nil, since that push is a message of its own.
local function merge(uid, packed, early, mode, wait, into, entries)
  separate()
  merged, plain = true, false
  local old = stands(into)
  local mark = marks[into] or redis.call('HGET', MARK, into)
  local refusals, place = numbers(mark), lane(mark) or ''
  if mode ~= 'k' then
    attempts(entries, function(u)
      local later = nexts[u] or redis.call('HGET', NEXT, u)
      if later == 'k' .. into then nexts[u] = 'r' .. into end
    end)
  end
  local replaces, had = (mode == 'k') == early, tried(old, mark)
  if replaces and had and mode ~= 'k' then
    over[#over + 1] = {old, mark, into}
    marks[into] = nil
    tally(topic(old), -1)
    known[into] = ending(STATE_CANCELED, old, tonumber(now), false, because(KIND_GAVE_WAY, ''), 2 + changes(mark),
      refusals)
    push(set, into, known[into])
    push(log, into, known[into])
    gone[#gone + 1] = into
    return nil
  end
  local changed = string.format('%.0f', changes(mark) + 1)
  local value, cause, new = old, because(KIND_ABSORBED, ''), ''
  if replaces and not had then
    value, cause = given(uid, packed, into, old, wait), because(KIND_REPLACED, '')
    new = value
    if place ~= '' or pulled(old) or pulled(value) then leaving[#leaving + 1] = {old, mark, into} end
    refusals, place = '0', ''
    push(set, into, value)
    if pulled(value) then offers[into] = true else push(order, score(value), into) end
    big = big or #value > 16384
    if fresh[into] then fresh[into] = value else known[into] = value end -- its topic stays
  end
  marks[into] = (handed(mark) and '2:' or '0:') .. refusals .. ':' .. changed .. ':' .. place
    .. (refusals ~= '0' and last(mark) or '')
  push(log, into, amended(value, marks[into], cause, new))
  cause = because(KIND_MERGED, into)
  local record = ending(STATE_CANCELED, packed, tonumber(now), false, cause, 1)
  known[uid] = record
  push(set, uid, record)
  gone[#gone + 1] = uid
  return '4'
end

-- into returns the message that the push with this record was merged into, or nil.
local function into(record)
  if not record or live(record) or kind(record) ~= KIND_MERGED then return nil end
  return other(record)
end

for i = 1, n do
  local uid, packed, name = uids[i], ARGV[base + 4 * i - 1], ARGV[base + 4 * i]
  local score = ARGV[base + 4 * i - 2]
  local first = earlier_calls[calls[i] or '']
  if first and stands(first) then uid = first end -- without its record the call is longer ago than is remembered
  if known[uid] or fresh[uid] then
    plain = false
    local of, bad = uid, known[uid] and not sound(known[uid])
    local other = not bad and into(known[uid])
    if other and stands(other) then
      of, bad = other, not sound(stands(other))
    end
    if bad then
      unreadable(i, of)
    elseif topic(contents(stands(of))) ~= '' and topic(contents(stands(of))) ~= topic(packed) then -- another message's
      refer(i, '3', of)
    else
      refer(i, of == uid and '2' or '4', of)
    end
  else
    local id, key, at, entries, last, code, sequence, mode, wait, since, stored, judged, bad
    if calls[i] and #kept_calls >= 2 * room then
      code = '8'
    elseif #name < 22 and string.byte(name, 1) == 33 then -- a longer one has an id of 33 bytes
      if phase == 'filling' and string.sub(name, 2) ~= number then code = '7' end
    elseif name ~= '' then
      local a = string.byte(name, 1)
      local b = string.byte(name, a + 2)
      id, key = string.sub(name, 2, a + 1), string.sub(name, a + 3, a + 2 + b)
      sequence, mode, wait, since, stored, judged =
        string.match(name, '^(%d+)(%a?)(%d*):?(%d*):?(%d*)!?(%d*)$', a + 3 + b)
      local unjudged = phase == 'filling' and judged ~= '' and judged ~= number
      sequence = tonumber(sequence)
      local topic = topic(packed)
      at = field(id, topic, key)
      entries = named[at] or redis.call('HGET', NAME, at)
      bad = entries and damaged(entries)
      if bad then -- luacheck: ignore 542 (nothing can be said of it)
      elseif mode == '' then
        attempts(entries, function(u) last = u end)
        if last then code = earlier(entries, last, packed) elseif unjudged then code = '7' end
        if not code and buried(uid, id, topic, key, sequence) then code = '1' end
      elseif buried(uid, id, topic, key, sequence) then
        code = '1' -- a canceled push changes nothing
      else
        attempts(entries, function(u) if lives(u) then last = u end end)
        -- a push is merged only into a message that is certain to wait
        local mark = last and effective(redis.call('HGET', MARK, last), stands(last))
        local unsure = last and uncertain(mark)
        if last and (holder(last, stands(last)) or (unsure and mode == 'k')) then
          if mode ~= 'k' or (nexts[last] or redis.call('HGET', NEXT, last)) ~= 'd' then
            nexts[last] = (mode == 'k' and 'k' or 'r') .. uid -- this is the next under the name
          end
        elseif unsure then
          code = '5'
        elseif last then
          local early = older(uid, origin(last, stands(last)), tonumber(since), tonumber(stored))
          code = merge(uid, packed, early, mode, tonumber(mode == 'd' and wait or 0), last, entries)
        elseif unjudged then
          code = '7'
        end
      end
    end
    if code == '7' or code == '8' then
      plain = false
      alone(i, code, uid)
    elseif bad then
      plain = false
      unreadable(i, bad)
    elseif code and code ~= '1' then
      plain = false
      refer(i, code, last)
    else
      if id then
        local kept, before = '', ''
        if entries then
          past(entries, function(u) before = before .. u end)
          attempts(entries, function(u)
            if lives(u) then kept = kept .. u elseif stands(u) then before = before .. u end
          end)
          before = string.sub(before, -18 * 32)
        else
          push(index, '0', at)
        end
        named[at] = joined(kept .. uid, before)
      end
      local value = packed
      if code == '1' then
        plain = false
        value = ending(STATE_CANCELED, packed, tonumber(now), false, because(KIND_WITHDRAWN, ''), 2)
        separate()
        push(log, uid, packed)
        gone[#gone + 1] = uid
        known[uid] = value
        refer(i, '1', uid)
      else
        fresh[uid] = packed
        if score == '' then
          offers[uid] = true
        else
          order[#order + 1] = score -- no push, here and below: each message would pay for a call
          order[#order + 1] = uid
          if not lowest or tonumber(score) < lowest then lowest = tonumber(score) end
        end
      end
      set[#set + 1] = uid
      set[#set + 1] = value
      if log ~= set then push(log, uid, value) end
      big = big or #value > 16384
    end
    if calls[i] and (known[uid] or fresh[uid]) then -- it was stored
      push(kept_calls, calls[i], uid)
      earlier_calls[calls[i]] = uid
    end
  end
end
local result = {hastened, '', '0'}
if #set > 0 then
  local full = overfull(ARGV[2])
  if full then return full end
  if merged then -- a message may have moved: its last place counts
    local seen, last = {}, {}
    lowest = nil
    for i = #order, 2, -2 do
      local place, uid = order[i - 1], order[i]
      if not seen[uid] and not pulled(stands(uid)) then
        push(last, place, uid)
        if not lowest or tonumber(place) < lowest then lowest = tonumber(place) end
      end
      seen[uid] = true
    end
    order = last
  end

  local before = head(DUE)
  each(#set, 2000, function(from, to) redis.call('HSET', MSG, unpack(set, from, to)) end)
  for _, place in ipairs(leaving) do leave(unpack(place)) end
  for _, place in ipairs(over) do take_out(unpack(place)) end
  each(#order, 2000, function(from, to) redis.call('ZADD', DUE, unpack(order, from, to)) end)
  local all, queues, least = {}, {}, {} -- by topic: uids and places, and the earliest due time
  for uid in pairs(offers) do
    local packed = stands(uid)
    if pulled(packed) and serial(packed) then
      offer(packed, uid, expiry(packed))
    elseif pulled(packed) then
      local on, at, expires = topic(packed), due(packed), expiry(packed)
      push(all, score(packed), uid)
      queues[on] = queues[on] or {}
      push(queues[on], rank(packed), uid)
      least[on] = math.min(least[on] or at, at)
      if expires then redis.call('ZADD', EXPIRES, expires, uid) end
    end
  end
  each(#all, 2000, function(from, to) redis.call('ZADD', PULL, unpack(all, from, to)) end)
  for on, list in pairs(queues) do
    each(#list, 2000, function(from, to) redis.call('ZADD', queue(on), unpack(list, from, to)) end)
    await(on, least[on])
  end
  for at, entries in pairs(named) do redis.call('HSET', NAME, at, entries) end
  each(#index, 2000, function(from, to) redis.call('ZADD', NAMES, unpack(index, from, to)) end)
  for uid, mark in pairs(marks) do redis.call('HSET', MARK, uid, mark) end
  for uid, later in pairs(nexts) do redis.call('HSET', NEXT, uid, later) end
  if big then redis.call('SET', BIG, '1') end
  if #kept_calls > 0 then
    each(#kept_calls, 2000, function(from, to) redis.call('HSET', book, unpack(kept_calls, from, to)) end)
    if begins then redis.call('PEXPIRE', book, 2 * CALL_KEEP) end
  end
  if #gone > 0 then remember_end(now, table.concat(gone)) end
  if lowest and (not before or lowest < tonumber(before)) then hasten('', math.floor(lowest / 256)) end
  if plain then -- the usual case: the counts given by topic apply
    for i = 5, base, 2 do tally(ARGV[i], tonumber(ARGV[i + 1])) end
  else
    for _, packed in pairs(fresh) do tally(topic(packed), 1) end
  end
  count()
  if CONTEXT ~= '' then
    local entries = {}
    each(#log, 2000, function(from, to)
      local size = 0
      for i = from, to do size = size + #log[i] end
      entries[#entries + 1] = note((to - from + 1) / 2, size, unpack(log, from, to))
    end)
    result[2] = table.concat(entries, '\n')
    if merged then
      result[3] = tostring(#log)
      for _, v in ipairs(log) do result[#result + 1] = live(v) and '' or v end
    end
  end
end
for _, v in ipairs(answers) do result[#result + 1] = v end
return result
