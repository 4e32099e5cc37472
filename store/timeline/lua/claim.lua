-- claim moves due messages to claimed. It is not repeatable: held finds the claims of a lost reply.
-- KEYS due msg claimed term mark lanes big
-- ARGV 1 term  2 highest due score  3 limit  4 bytes  5 lane, '' for the bucket  6 number of the claim
-- Result: earliest score left or '', uids, packed messages, marks ('' for none), uids without a message,
--      the due time up to which messages are in doubt
local stale = check(ARGV[1])
if stale then return stale end
if phase == 'filling' then return redis.error_reply('UNCERTIFIED ' .. number .. ' filling ' .. (run or present())) end
local limit, bytes, lane = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local order = lane == '' and DUE or parked(lane)
local due = redis.call('ZRANGEBYSCORE', order, '-inf', ARGV[2], 'LIMIT', 0, limit)
local uids, packed, missing, weight = {}, {}, {}, 0
-- If the bucket has ever had a big message, lengths are read first, so that only messages to be claimed are read.
-- Otherwise 250 messages are small enough to be read at once.
local big = redis.call('EXISTS', BIG) == 1
local full, last, from = false, 0, 1
while from <= #due and not full do
  local to = math.min(from + 249, #due)
  if big then
    local sum, fits = weight, from - 1
    for i = from, to do
      sum = sum + redis.call('HSTRLEN', MSG, due[i])
      if sum > bytes and i > 1 then break end
      fits = i
    end
    if fits < from then break end
    to = fits
  end
  local got = redis.call('HMGET', MSG, unpack(due, from, to))
  for i = from, to do
    local value = got[i - from + 1]
    if value then
      weight = weight + #value
      if weight > bytes and #uids > 0 then full = true break end
      uids[#uids + 1] = due[i]
      packed[#packed + 1] = value
    else
      missing[#missing + 1] = due[i]
    end
    last = i
  end
  from = to + 1
end
local marks = {}
if last > 0 then
  redis.call('ZREMRANGEBYRANK', order, 0, last - 1) -- the messages read are the head
  if lane ~= '' then
    local later = behind(lane)
    if redis.call('EXISTS', later) == 1 then redis.call('ZREM', later, unpack(due, 1, last)) end
  end
  if #uids > 0 then
    local claims, claim = {}, ARGV[1] .. ':' .. ARGV[6]
    for i = 1, #uids do
      claims[2 * i - 1] = uids[i]
      claims[2 * i] = claim
    end
    if redis.call('EXISTS', CLAIMED) == 0 then
      claims[#claims + 1] = '' -- see doc.go: it keeps the hash from being a list
      claims[#claims + 1] = string.rep('-', 65)
    end
    redis.call('HSET', CLAIMED, unpack(claims))
    if redis.call('EXISTS', MARK) == 1 then
      marks = redis.call('HMGET', MARK, unpack(uids))
      for i = 1, #uids do marks[i] = marks[i] or '' end
    end
  end
end
local earliest = head(order)
if not earliest and lane ~= '' then redis.call('SREM', LANES, lane) end
return {earliest or '', uids, packed, marks, missing, string.format('%.0f', doubt)}
