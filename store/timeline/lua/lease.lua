-- lease takes ready messages of a topic into leases.
-- KEYS pull pulls msg mark lease leasing expires refused paused big
-- ARGV 1 topic  2 now in ms  3 how many at most  4 bytes  5 '1' if the first message may exceed them
--      6 nonce  7 how long the nonce is remembered after its last lease is over, in ms  8 when the leases begin
--      9 how long they are, in ms  10 '1' if that holds whatever the messages say  11 consumer
--      12 time of the last change of pauses that the caller knows  13 '1' if a nonce that takes nothing is
--      not remembered; otherwise it can take nothing later
--      14 how many messages of the nonce's grant earlier answers had  15 bytes: an answer of several stays below
-- Result: '1' if the nonce was granted before; a time no later than when the next message is due, '' for none; how many
--      messages were set aside; ARGV 14 of a call for what did not fit below ARGV 15, or ''; then for each: uid,
--      packed message, mark, end of the lease. Or the error PAUSED if the pauses changed later.
-- A message past its time to live leaves the queue, so that others come, and waits for the leader in the other orders.
-- One that cannot be read leaves all of them and is listed as refused.
-- Twice or late: the nonce was granted, so nothing is taken; the answer is what is still leased under it. Only a call
-- that has had all of a grant takes more under its nonce, until one with the limit 0 has read it.
if phase == 'filling' then return redis.error_reply('UNCERTIFIED ' .. number .. ' filling ' .. (run or present())) end
local on, now, limit, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local nonce, start, skip, page = ARGV[6], tonumber(ARGV[8]), tonumber(ARGV[14]), tonumber(ARGV[15])
local key, granted = grant(nonce), redis.call('HGET', grant(nonce), '')
local goes_on = granted and limit > 0 and skip > 0 and #granted == 18 * skip
local result = {granted and not goes_on and '1' or '', '', '0', ''}
local function hand_out(uid, packed, mark, till)
  push(result, uid, packed)
  push(result, mark, till)
end

if granted and not goes_on then
  if limit == 0 and string.sub(granted, -1) ~= '-' then
    local left = redis.call('PTTL', key)
    redis.call('HDEL', key, '') -- a removal, so that a full Redis does not refuse it
    redis.call('HSET', key, '', granted .. '-')
    redis.call('PEXPIRE', key, left)
  end
  local size = 0
  for at = 18 * skip + 1, #granted - 17, 18 do
    local uid = string.sub(granted, at, at + 17)
    local lease, packed = redis.call('HGET', LEASE, uid), redis.call('HGET', MSG, uid)
    if lease and string.sub(lease, 1, 16) == nonce and sound(packed) then
      if size > 0 and size + #packed > page then
        result[4] = string.format('%d', (at - 1) / 18)
        return result
      end
      size = size + #packed
      hand_out(uid, packed, marked(uid, packed), redis.call('ZSCORE', leases_of(topic(packed)), uid))
    end
  end
  return result
end
local changed = redis.call('HGET', PAUSED, '') or '0'
if limit > 0 and tonumber(changed) > tonumber(ARGV[12]) then return redis.error_reply('PAUSED at ' .. changed) end

local usual, unexpiring, last, text = tonumber(ARGV[9]), table.concat({nonce, ARGV[8], '0', ARGV[11]}, ' '), nil, nil
local from, uids, aside, weight, latest, first, full, out = queue(on), {}, 0, 0, now, nil, false, false
-- Big messages are read one by one, so that none is read in vain.
local small, marks = redis.call('EXISTS', BIG) == 0, redis.call('EXISTS', MARK) == 1
while not full and not out and #uids < limit and aside < 1000 do
  local asked = math.min(limit - #uids, 250)
  local read = ready(from, now, asked)
  local gone, leases, ends, took, limited, serials, more = {}, {}, {}, {}, {}, {}, false
  local records = small and #read > 0 and redis.call('HMGET', MSG, unpack(read))
  for i, uid in ipairs(read) do
    local packed = records and records[i] or redis.call('HGET', MSG, uid)
    local fit = packed and sound(packed)
    local flags = fit and string.byte(packed, 2)
    local expires = fit and bit.band(flags, 2) == 2 and redis.call('ZSCORE', EXPIRES, uid)
    if not fit then
      withdraw(on, uid)
      if packed then refuse(uid, STATE_NONE, STATE_IN_FLIGHT, KIND_PLAIN, now, packed) end
    elseif not pulled(packed) or topic(packed) ~= on then
      gone[#gone + 1] = uid
    elseif expires and tonumber(expires) <= now then
      gone[#gone + 1] = uid
      if serial(packed) then push(serials, uid, packed) end
      aside = aside + 1
    else
      weight = weight + #packed
      if weight > bytes and (#uids > 0 or ARGV[5] ~= '1') then full = true break end
      if weight > page and #uids > 0 then
        full, result[4] = true, string.format('%d', skip + #uids)
        break
      end
      local own = bit.band(flags, 32) == 32 and ARGV[10] ~= '1'
      local till = start + (own and struct.unpack('>I4', packed, #meta(packed) - 3) or usual)
      gone[#gone + 1], took[#took + 1], uids[#uids + 1] = uid, uid, uid
      if flags > 63 then push(serials, uid, packed) end
      if till ~= last then
        last, text = till, string.format('%.0f', till)
        latest, first = math.max(latest, till), math.min(first or till, till)
      end
      if expires then limited[#limited + 1] = uid end
      push(leases, uid, expires and table.concat({nonce, ARGV[8], expires, ARGV[11]}, ' ') or unexpiring)
      push(ends, text, uid)
      hand_out(uid, packed, effective(marks and redis.call('HGET', MARK, uid), packed), text)
    end
  end
  if #gone > 0 then redis.call('ZREM', from, unpack(gone)) end
  if #took > 0 then
    redis.call('ZREM', PULL, unpack(took))
    if #limited > 0 then redis.call('ZREM', EXPIRES, unpack(limited)) end
    if redis.call('EXISTS', LEASE) == 0 then push(leases, '', string.rep('-', 65)) end -- see doc.go: as in claimed
    redis.call('HSET', LEASE, unpack(leases))
    redis.call('ZADD', leases_of(on), unpack(ends))
    redis.call('ZADD', LEASING, 'LT', first, on)
  end
  for i = 1, #serials, 2 do
    local chain, held, name = line(serials[i + 1])
    if not redis.call('HGET', LEASE, serials[i]) then
      step_out(serials[i + 1], serials[i], true)
      more = true -- the next of its line may be due
    else
      redis.call('ZREM', chain, serials[i])
      redis.call('HSET', held, name, serials[i])
    end
  end
  out = #read < asked and not full and not more
end
if #uids > 0 or not granted and ARGV[13] ~= '1' then
  local ends = latest - now + tonumber(ARGV[7])
  if granted then ends = math.max(ends, redis.call('PTTL', key)) end
  redis.call('HDEL', key, '') -- a removal, so that a full Redis does not refuse it
  redis.call('HSET', key, '', (granted or '') .. table.concat(uids))
  redis.call('PEXPIRE', key, string.format('%.0f', ends))
end
local known = not out and redis.call('EXISTS', from) == 1
local at = tonumber(known and redis.call('ZSCORE', PULLS, on) or '') or not known and correct(on)
result[2], result[3] = at and string.format('%.0f', at) or '', tostring(aside)
return result
