-- take writes what lies in a key of another bucket into the key of that name here, without what is here already. drop
-- then removes it there (rebucket.go).
-- KEYS gen term pulls leasing lanes counts big
-- ARGV 1 term  2 name of the key  3 its type  4 its time to live in ms, or less than 1; then field and value of a hash,
--      member and score of a ZSET, or entries of a list
-- Result: of a chain, the message that stands in the queue, else ''
-- Twice: all is here. A list takes it again: an end may be listed twice. So do counts, of records that cannot be read.
local stale = check(ARGV[1])
if stale then return stale end
local name, kind, ttl = ARGV[2], ARGV[3], tonumber(ARGV[4])
local key = string.sub(GEN, 1, -4) .. name
local on, front = string.match(name, '^chain:(%Z*)'), ''
for i = 5, #ARGV, 2 do
  local at, value = ARGV[i], ARGV[i + 1]
  if kind == 'zset' then
    local new = redis.call('ZADD', key, name == 'tombs' and 'GT' or 'NX', value, at) == 1
    if on and redis.call('ZSCORE', queue(on), at) then
      front = at
    elseif on and new then
      stand_behind(on, 1)
    end
  elseif name == 'counts' and at ~= '' then
    tally(at, tonumber(string.match(value, '^%S+')), tonumber(string.match(value, ' (%S+)$')))
  elseif kind == 'hash' and redis.call('HSETNX', key, at, value) == 1 then
    if name == 'msg' then
      weigh(value, 1)
      if #value > 16384 then redis.call('SET', BIG, '1') end
    end
  elseif name == 'tomb' then -- of an id without a key each bucket has one, but where it had a message then
    local sequence, laid = string.match(redis.call('HGET', key, at), '^(%d+):(%d+)$')
    local other, later = string.match(value, '^(%d+):(%d+)$')
    redis.call('HSET', key, at, string.format('%.0f:%.0f', math.max(sequence, other), math.max(laid, later)))
  elseif string.sub(name, 1, 6) == 'grant:' and at == '' then -- no poll that goes on with it is left
    local granted = redis.call('HGET', key, '')
    granted = string.sub(granted, 1, #granted - #granted % 18)
    for uid in string.gmatch(value, string.rep('.', 18)) do
      if not string.find(granted, uid, 1, true) then granted = granted .. uid end
    end
    redis.call('HSET', key, '', granted)
  end
end
if kind == 'list' then redis.call('RPUSH', key, unpack(ARGV, 5)) end
if ttl > 0 and redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ARGV[4]) end
count()
derive(name, key)
return front
