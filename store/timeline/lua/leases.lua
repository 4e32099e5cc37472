-- leases lists leases. It writes nothing but the time of a topic in leasing.
-- KEYS leasing expires lease msg mark next
-- ARGV 1 now in ms  2 how many at most  3 bytes: it stops after the message that reaches them
--      4 'over' for leases that are over and messages past their time to live without a lease, 'on' for those of
--      5 a topic, after 6 an end of a lease and 7 a uid, or 'of' for those of the messages 5 and on
-- Result: with 'over' when to ask again, in ms, '' for never; with 'on' whether more follow; with 'of' how many of the
--      messages it reached; then for each: uid, topic, end of the lease or of the time to live, lease or '', record
--      without body, mark, '1' if it was discarded
-- Twice: the same.
local now, limit, room, which = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local result, n = {''}, 0

-- row lists one message.
local function row(uid, on, till, lease)
  local record = redis.call('HGET', MSG, uid)
  local fit = record and sound(record)
  push(result, uid, on)
  push(result, till, lease or '')
  push(result, fit and first(record) or '', fit and marked(uid, record) or '')
  result[#result + 1] = lease and redis.call('HGET', NEXT, uid) == 'd' and '1' or ''
  room, n = room - (record and #record or 0), n + 1
end

if which == 'of' then
  local looked = 0
  for i = 5, #ARGV do
    if room <= 0 then break end
    looked = looked + 1
    local lease, record = redis.call('HGET', LEASE, ARGV[i]), redis.call('HGET', MSG, ARGV[i])
    if lease and sound(record) then
      local on = topic(record)
      row(ARGV[i], on, redis.call('ZSCORE', leases_of(on), ARGV[i]) or '0', lease)
    end
  end
  result[1] = tostring(looked)
elseif which == 'on' then
  local key = leases_of(ARGV[5])
  local at = ARGV[7] ~= '' and after(key, ARGV[6], ARGV[7]) or 0
  local found = redis.call('ZRANGE', key, at, at + limit, 'WITHSCORES') -- one more, to see whether more follow
  for i = 1, #found, 2 do
    if n == limit or room <= 0 then
      result[1] = '1'
      break
    end
    row(found[i], ARGV[5], found[i + 1], redis.call('HGET', LEASE, found[i]))
  end
else
  local over = redis.call('ZRANGEBYSCORE', LEASING, '-inf', now, 'LIMIT', 0, limit)
  for _, on in ipairs(over) do
    local key = leases_of(on)
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit - n)
    for i = 1, #found, 2 do
      if room <= 0 then break end
      local lease = redis.call('HGET', LEASE, found[i])
      if lease then row(found[i], on, found[i + 1], lease) else redis.call('ZREM', key, found[i]) end
    end
    if #found == 0 and n < limit then -- the lease that ends first was settled or extended
      local ends = head(key)
      redis.call('ZREM', LEASING, on)
      if ends then redis.call('ZADD', LEASING, ends, on) end
    end
    if n >= limit or room <= 0 then break end
  end
  local found = redis.call('ZRANGEBYSCORE', EXPIRES, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit - n)
  for i = 1, #found, 2 do
    if room <= 0 then break end
    local record = redis.call('HGET', MSG, found[i])
    row(found[i], record and sound(record) and topic(record) or '', found[i + 1])
  end
  result[1] = first_over()
end
return result
