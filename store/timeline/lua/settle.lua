-- settle ends, returns or extends leases, and ends messages past their time to live.
-- KEYS pull pulls due msg mark lease claimed leasing expires dead ended next name names counts refused term big
-- ARGV 1 term, '' without  2 now in ms  3 bytes: it stops after the item that reaches them; then for each group of
--      items: verb (a ack, n nack, d dead, r release, e extend, t until, u undo, x expire, c discard)  topic
--      nonce, '' for any  number: when a nack is due again, or when the lease ends then  '1' if only a lease that
--      is over is meant  kind and reason of the change  how many uids, and these
-- Result: entry of the outbox; which orders begin earlier (lib.lua, hasten); for each item that it reached, a text of:
--      code (0 lost, 1 done, 2 done before), state, due if it waits, version, refusals, when it ended, end of the
--      lease;
--      then the outbox's fields
-- A verb acts on the lease of exactly this uid, topic and nonce; an ack without a nonce ends also what consumers had
-- and waits again. What comes back past its time to live expires instead.
-- If another push stands as the next one under its name, one of the two ends (lib.lua, comeback). A message that cannot
-- be read loses its lease and enters no order; it is listed as refused.
-- Outbox: uid and, for each change, form, start of the lease, attempt and tries, and the record of the end or the
--      amended form; uid and record of a cancel.
-- Twice: an ack finds the message delivered; a nack, dead and a release find themselves in the grant, and no lapse.
local stale = ARGV[1] ~= '' and check(ARGV[1])
if stale then return stale end
local now, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local log, gone, told, size, item = {}, {}, {}, 0, 0
local nexts = redis.call('EXISTS', NEXT) == 1

-- read returns what a lease says: when it began, the end of the message's time to live or 0, and the consumer.
local function read(lease)
  local from, expires, consumer = string.match(lease, '^%x+ (%d+) (%d+) (.*)$')
  return tonumber(from), tonumber(expires), consumer
end

-- change notes a change for the journal. from and attempt are those of the lease, 0 without one; tries is how many
-- leases ended in vain before.
local function change(uid, from, attempt, tries, form)
  if CONTEXT == '' then return end
  push(log, uid, struct.pack('>Bi8I4I4', FORM_LEASED, from, attempt, tonumber(tries)) .. form)
end

-- cause returns the cause of a change by a consumer.
local function cause(kind, reason, consumer)
  if consumer ~= '' then reason = 'consumer ' .. consumer .. (reason ~= '' and ': ' .. reason or '') end
  if kind == KIND_PLAIN and reason == '' then return '' end
  return string.sub(because(kind, '') .. reason, 1, 251) -- lib.lua's around may need the rest
end

-- vain returns how many leases a mark says ended in vain. attempt_of returns the attempt of a message that is leased.
local function vain(mark) return tonumber((numbers(mark))) end
local function attempt_of(packed, mark) return struct.unpack('>I4', packed, 14) + vain(mark) end

-- discarded returns the cause with which a message ends when it would wait again, if somebody discarded it.
local function discarded(uid, consumer)
  if not nexts or redis.call('HGET', NEXT, uid) ~= 'd' then return nil end
  return cause(KIND_PLAIN, 'deleted while a consumer had it', consumer)
end

-- finish ends a message that is in no order. refusals is how many of its leases ended in vain, the last included. It
-- returns the record.
local function finish(uid, packed, mark, refusals, to, why, from, attempt)
  local record = ending(to, packed, now, uncertain(mark), why, 2 + changes(mark), refusals)
  redis.call('HDEL', MARK, uid)
  if nexts then redis.call('HDEL', NEXT, uid) end
  redis.call('HSET', MSG, uid, record)
  if kept(to) then
    redis.call('ZADD', DEAD, ARGV[2], uid)
    tally(topic(packed), -1, 1)
  else
    gone[#gone + 1] = uid
    tally(topic(packed), -1)
  end
  change(uid, from, attempt, refusals, record)
  return record
end

-- expire ends a message past its time to live.
local function expire(uid, packed, mark, refusals, from, attempt)
  local why = because(KIND_TRIED, '')
  if refusals == 0 then why = because(KIND_PLAIN, '') .. 'its time to live was over' end
  return finish(uid, packed, mark, refusals, STATE_EXPIRED, why, from, attempt)
end

-- deed returns what a call does, as the grant remembers it.
local function deed(verb, only, kind) return verb .. (only and 'l' or '') .. string.format('%d', kind) end

-- remember notes how a lease was settled.
local function remember(uid, lease, done)
  local key = grant(string.sub(lease, 1, 16))
  redis.call('HSET', key, uid, done)
  redis.call('HSETNX', key, '', '-') -- after an extend the grant may be forgotten
  if redis.call('PTTL', key) < 600000 then redis.call('PEXPIRE', key, 600000) end
end

-- back returns a message to waiting: by a nack, a release or an undo. It returns its record and mark.
local function back(uid, packed, lease, verb, at, only, kind, reason)
  local from, expires, consumer = read(lease)
  local was, counts = redis.call('HGET', MARK, uid) or '', verb == 'n'
  local mark = effective(was, packed)
  local refusals, attempt = vain(mark) + (counts and 1 or 0), attempt_of(packed, mark)
  unlease(topic(packed), uid)
  remember(uid, lease, deed(verb == 'u' and 'r' or verb, only, kind))
  if expires > 0 and expires <= now then
    if serial(packed) then step_out(packed, uid, false) end
    return expire(uid, packed, mark, refusals, from, attempt), ''
  end
  if nexts then
    local met, why = {}, discarded(uid, consumer) or cause(KIND_GAVE_WAY, 'replaced', consumer)
    local stands = table.concat({0, refusals, changes(was), ''}, ':')
    if comeback(uid, packed, uncertain(mark), stands, ARGV[2], met, why) then
      if serial(packed) then step_out(packed, uid, false) end
      change(uid, from, attempt, refusals, met[2])
      return met[2], ''
    end
    if met[1] then push(log, met[1], met[2]) end -- the other has ended
  end
  if not counts then
    mark = was
    if verb == 'r' then
      mark = (uncertain(was) and '3' or '2') .. (was == '' and ':0:0:' or string.sub(was, 2))
      redis.call('HSET', MARK, uid, mark)
    end
    if serial(packed) then step_out(packed, uid, false) end
  end
  if counts or kind ~= KIND_PLAIN then
    if counts then
      packed = string.sub(packed, 1, 3) .. struct.pack('>i8', at) .. string.sub(packed, 12)
      redis.call('HSET', MSG, uid, packed)
    end
    local flags = (uncertain(mark) and 1 or 0) + (handed(mark) and 2 or 0)
    local try = counts and '\0' .. ARGV[2] .. '\0' .. consumer .. '\0' .. string.sub(reason, 1, 120) or last(mark)
    mark = table.concat({flags, refusals, changes(mark) + 1, try}, ':')
    redis.call('HSET', MARK, uid, mark)
    change(uid, from, attempt, '0', amended(packed, mark, cause(kind, reason, consumer), ''))
  end
  offer(packed, uid, expires > 0 and expires or nil, counts)
  return packed, mark
end

-- undo releases what a nonce was granted and is still leased, unless that was read (lease.lua), and makes sure that it
-- is granted nothing more.
local function undo(nonce)
  local key = grant(nonce)
  local granted = redis.call('HGET', key, '') or ''
  if string.sub(granted, -1) == '-' then return end
  redis.call('HDEL', key, '') -- a removal, so that a full Redis does not refuse the rest
  redis.call('HSET', key, '', '-')
  if redis.call('PTTL', key) < 600000 then redis.call('PEXPIRE', key, 600000) end
  for i = 1, #granted - 17, 18 do
    local uid = string.sub(granted, i, i + 17)
    local lease, packed = redis.call('HGET', LEASE, uid), redis.call('HGET', MSG, uid)
    if lease and string.sub(lease, 1, 16) == nonce and sound(packed) then
      back(uid, packed, lease, 'u', 0, false, KIND_PLAIN, '')
    end
  end
end

-- before reports whether an item was done before, on a message with this state. A nack after the last retry was a dead.
local function before(verb, uid, nonce, only, kind, stands)
  if verb == 'a' then return stands == STATE_DELIVERED end
  local done = nonce ~= '' and redis.call('HGET', grant(nonce), uid)
  return done and (done == deed(verb, only, kind) or verb == 'n' and done == deed('d', only, kind))
end

-- tell answers the item at hand with the message as it is now.
local function tell(code, record, mark, held, till)
  local stands, at, ended, refusals = STATE_NONE, 0, 0, 0
  if record and live(record) then
    stands, at, refusals = held and STATE_IN_FLIGHT or STATE_WAITING, due(record), vain(mark)
  elseif record then
    stands, ended, refusals = state(record), struct.unpack('>i8', record, 4), refused(record)
  end
  told[item] = string.format('%d %d %.0f %.0f %.0f %.0f %.0f', code, stands, at,
    record and version(record, mark) or 0, refusals, ended, tonumber(till or '0'))
end

-- spoil removes a message that is not there or cannot be read from where it waits or is leased.
local function spoil(uid, on, record)
  unlease(on, uid)
  withdraw(on, uid)
  if record then refuse(uid, STATE_NONE, STATE_WAITING, KIND_PLAIN, now, record) end
end

-- settle does one item.
local function settle(verb, uid, on, nonce, at, only, kind, reason)
  local record, lease = redis.call('HGET', MSG, uid), redis.call('HGET', LEASE, uid)
  local mine = lease and (nonce == '' or string.sub(lease, 1, 16) == nonce)
  if not record or not sound(record) then
    if mine or verb == 'x' then spoil(uid, on, record) end
    return tell(0)
  end
  local ended = not live(record)
  if topic(ended and content(record) or record) ~= on then return tell(0) end
  local mark = ended and '' or redis.call('HGET', MARK, uid) or ''
  local till = lease and redis.call('ZSCORE', leases_of(on), uid)
  local held = lease or not ended and claimed(uid)
  size = size + #record
  if verb == 'x' then
    local expires = not lease and redis.call('ZSCORE', EXPIRES, uid)
    if ended or not expires or tonumber(expires) > now then return tell(0, record, mark, held) end
    mark = effective(mark, record)
    leave(record, mark, uid)
    return tell(1, expire(uid, record, mark, vain(mark), 0, 0), '')
  end
  if verb == 'a' and nonce == '' and not held and not ended and not only and tried(record, mark) then
    mark = effective(mark, record)
    leave(record, mark, uid)
    local refusals = math.max(vain(mark) - 1, 0) -- the last of its leases did not end in vain after all
    return tell(1, finish(uid, record, mark, refusals, STATE_DELIVERED, cause(kind, reason, ''), 0, 0), '')
  end
  if not mine or ended or only and tonumber(till or '0') > now then
    local code = before(verb, uid, nonce, only, kind, ended and state(record) or STATE_WAITING) and 2 or 0
    return tell(code, record, mark, held)
  end
  if verb == 'e' or verb == 't' then
    if verb == 'e' then at = math.max(at, tonumber(till or '0')) else redis.call('ZADD', LEASING, 'LT', at, on) end
    redis.call('ZREM', leases_of(on), uid)
    redis.call('ZADD', leases_of(on), at, uid)
    return tell(1, record, mark, true, at)
  end
  if verb == 'c' then
    nexts = true
    redis.call('HSET', NEXT, uid, 'd')
    return tell(1, record, mark, true, till)
  end
  if verb == 'a' or verb == 'd' then
    local from, _, consumer = read(lease)
    local no = verb == 'd' and discarded(uid, consumer)
    mark = effective(mark, record)
    unlease(on, uid)
    if verb == 'd' then remember(uid, lease, deed(verb, only, kind)) end
    if serial(record) then step_out(record, uid, false) end
    local refusals = vain(mark) + (verb == 'd' and 1 or 0)
    local to = verb == 'a' and STATE_DELIVERED or no and STATE_CANCELED or STATE_DEAD
    return tell(1, finish(uid, record, mark, refusals, to, no or cause(kind, reason, consumer), from,
      attempt_of(record, mark)), '')
  end
  return tell(1, back(uid, record, lease, verb, at, only, kind, reason))
end

-- ack_all acknowledges, in few calls, those of the messages that are leased under a nonce and small. Most calls are
-- nothing else.
local function ack_all(uids, on, nonce, kind, reason)
  local records, leases = redis.call('HMGET', MSG, unpack(uids)), redis.call('HMGET', LEASE, unpack(uids))
  local marks = redis.call('EXISTS', MARK) == 1 and redis.call('HMGET', MARK, unpack(uids))
  local freed, ended, done, serials = {}, {}, {}, {}
  local last, was, since, n, tries, head, middle, answer -- mostly all leases and marks are the same
  for i, uid in ipairs(uids) do
    local record, lease = records[i], leases[i]
    if lease and (lease == last or string.sub(lease, 1, 16) == nonce) and not done[uid] and sound(record)
      and topic(record) == on then
      local mark = effective(marks and marks[i], record)
      if lease ~= last or mark ~= was then
        local from, _, consumer = read(lease)
        last, was, since, n, tries = lease, mark, from, 2 + changes(mark), vain(mark)
        head, middle = around(STATE_DELIVERED, now, uncertain(mark), cause(kind, reason, consumer), n, tries)
        answer = table.concat({1, STATE_DELIVERED, 0, n, tries, ARGV[2], 0}, ' ')
      end
      local over = head .. string.sub(record, 4, 11) .. middle .. remains(record)
      push(ended, uid, over)
      done[uid], freed[#freed + 1], gone[#gone + 1] = true, uid, uid
      if CONTEXT ~= '' then change(uid, since, attempt_of(record, mark), tries, over) end
      if serial(record) then push(serials, uid, record) end
      told[item + i] = answer
    end
  end
  if #freed == 0 then return end
  tally(on, -#freed)
  redis.call('HDEL', LEASE, unpack(freed))
  redis.call('ZREM', leases_of(on), unpack(freed))
  if redis.call('EXISTS', leases_of(on)) == 0 then redis.call('ZREM', LEASING, on) end
  if marks then redis.call('HDEL', MARK, unpack(freed)) end
  if nexts then redis.call('HDEL', NEXT, unpack(freed)) end
  redis.call('HSET', MSG, unpack(ended))
  for i = 1, #serials, 2 do step_out(serials[i + 1], serials[i], false) end
end

local small, i = redis.call('EXISTS', BIG) == 0, 4
while i < #ARGV and size < room do
  local verb, on, nonce, at, only, kind, reason, n = unpack(ARGV, i, i + 7)
  local uids = {unpack(ARGV, i + 8, i + 7 + n)}
  i = i + 8 + n
  if verb == 'a' and only == '' and small then ack_all(uids, on, nonce, tonumber(kind), reason) end
  for _, uid in ipairs(uids) do
    if size >= room then break end
    item = item + 1
    if told[item] then -- luacheck: ignore 542 (it is acknowledged)
    elseif verb == 'u' then
      undo(nonce)
      tell(1)
    else
      settle(verb, uid, on, nonce, tonumber(at), only == '1', tonumber(kind), reason)
    end
  end
end
if #gone > 0 then remember_end(ARGV[2], table.concat(gone)) end
count()
local entry = ''
if #log > 0 then
  size = 0
  for _, field in ipairs(log) do size = size + #field end
  entry = note(#log / 2, size, unpack(log))
end
return {entry, hastened, told, log}
