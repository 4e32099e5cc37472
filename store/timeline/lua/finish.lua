-- finish ends claimed messages; those that are not claimed are passed over.
-- KEYS 1 claimed  2 msg  3 ended  4 term  5 mark  6 dead  7 next  8 counts  9 refused
-- ARGV 1 term  2 now in ms  3 how many  4 what the outbox gets  5 how many topics;
--      then for each topic: name, how many end; then the uids; then uid and record
--      of its end for each, in the same order
-- Result: how many were ended; where that is not all of them, their uids; entry of
--      the outbox
-- Outbox: ARGV 4, and where not all were ended the uids of those that were.
-- Twice: the second time none is claimed any more.
local stale = check(KEYS[4], ARGV[1])
if stale then return stale end
local n, topics = tonumber(ARGV[3]), tonumber(ARGV[5])
local base = 5 + 2 * topics
local time = string.format('%013d', ARGV[2])

-- finish ends the messages of a list, all of them claimed; pairs holds uid and
-- record of each from first to last.
local function finish(list, from, to, pairs, first, last)
  redis.call('HDEL', KEYS[1], unpack(list, from, to))
  if redis.call('EXISTS', KEYS[5]) == 1 then redis.call('HDEL', KEYS[5], unpack(list, from, to)) end
  if redis.call('EXISTS', KEYS[7]) == 1 then redis.call('HDEL', KEYS[7], unpack(list, from, to)) end
  redis.call('HSET', KEYS[2], unpack(pairs, first, last))
  local dead, gone
  for i = first, last, 2 do
    if string.byte(pairs[i + 1], 2) == 6 then -- dead: kept until somebody deals with it
      dead = dead or {}
      dead[#dead + 1] = ARGV[2]
      dead[#dead + 1] = pairs[i]
      tally(topic(content(pairs[i + 1])), 0, 1)
    end
  end
  if dead then
    gone = {}
    for i = first, last, 2 do
      if string.byte(pairs[i + 1], 2) ~= 6 then gone[#gone + 1] = pairs[i] end
    end
    redis.call('ZADD', KEYS[6], unpack(dead))
    if #gone > 0 then redis.call('RPUSH', KEYS[3], time .. table.concat(gone)) end
  else
    redis.call('RPUSH', KEYS[3], time .. table.concat(list, '', from, to))
  end
end

-- What cannot end as asked stays claimed. Ends mostly are of one state, so that the
-- table is asked for each state once.
local known, barred = {}, {}
for i = 1, n do
  local to = string.byte(ARGV[base + n + 2 * i], 2)
  if known[to] == nil then known[to] = to > IN_FLIGHT and may(IN_FLIGHT, to, PLAIN) end
  if not known[to] then
    local uid = ARGV[base + i]
    barred[uid] = true
    if redis.call('HEXISTS', KEYS[1], uid) == 1 then refuse(KEYS[9], uid, IN_FLIGHT, to, PLAIN, ARGV[2]) end
  end
end

local held, all = {}, next(barred) == nil
each(n, 1000, function(from, to)
  local claims = redis.call('HMGET', KEYS[1], unpack(ARGV, base + from, base + to))
  for i = 1, to - from + 1 do all = all and claims[i] end
  held[from] = claims
end)

local ended, only = n, {}
if all then -- nearly always: no list needs to be made, and the topics count as given
  each(n, 1000, function(from, to)
    finish(ARGV, base + from, base + to, ARGV, base + n + 2 * from - 1, base + n + 2 * to)
  end)
  for i = 6, base, 2 do tally(ARGV[i], -tonumber(ARGV[i + 1])) end
else
  ended = 0
  each(n, 1000, function(from, to)
    local list, pairs = {}, {}
    for i = from, to do
      local uid, record = ARGV[base + i], ARGV[base + n + 2 * i]
      if held[from][i - from + 1] and not barred[uid] then
        list[#list + 1] = uid
        pairs[#pairs + 1] = uid
        pairs[#pairs + 1] = record
        -- By its end: what stands there may be damaged.
        if redis.call('HEXISTS', KEYS[2], uid) == 1 then tally(topic(content(record)), -1) end
      end
    end
    if #list > 0 then finish(list, 1, #list, pairs, 1, #pairs) end
    ended = ended + #list
    only[#only + 1] = table.concat(list)
  end)
end
if ended > 0 then count(KEYS[8]) end
local entry, some = '', table.concat(only)
if CONTEXT ~= '' and ended > 0 then
  if some == '' then
    entry = note(ended, #ARGV[4], 'e', ARGV[4])
  else
    entry = note(ended, #ARGV[4] + #some, 'e', ARGV[4], 'o', some)
  end
end
return {tostring(ended), some, entry}
