-- finish ends claimed messages; it skips those that are not held by the given claim.
-- KEYS claimed msg ended term mark dead next counts refused
-- ARGV 1 term  2 now in ms  3 how many  4 what goes to the outbox  5 how many topics;
--      then for each topic: name, how many end; then the uids; then uid and record
--      of its end for each, then the claim that holds each, in the same order
-- Result: how many were ended; if not all, their uids; entry of the outbox
-- Outbox: ARGV 4, and if not all were ended the uids of those that were.
-- Twice: the second time those claims are over.
local stale = check(ARGV[1])
if stale then return stale end
local n, topics = tonumber(ARGV[3]), tonumber(ARGV[5])
local base = 5 + 2 * topics
local claim = base + 3 * n
local keeps = false -- whether any of these ends is kept

-- finish ends the messages of a list, all of them claimed; pairs holds uid and record of each from first to last.
local function finish(list, from, to, pairs, first, last)
  redis.call('HDEL', CLAIMED, unpack(list, from, to))
  if redis.call('EXISTS', MARK) == 1 then redis.call('HDEL', MARK, unpack(list, from, to)) end
  if redis.call('EXISTS', NEXT) == 1 then redis.call('HDEL', NEXT, unpack(list, from, to)) end
  redis.call('HSET', MSG, unpack(pairs, first, last))
  if not keeps then return remember_end(ARGV[2], table.concat(list, '', from, to)) end
  local dead, gone = {}, {}
  for i = first, last, 2 do
    if kept(state(pairs[i + 1])) then -- until an operator handles it
      push(dead, ARGV[2], pairs[i])
      tally(topic(content(pairs[i + 1])), 0, 1)
    else
      gone[#gone + 1] = pairs[i]
    end
  end
  if #dead > 0 then redis.call('ZADD', DEAD, unpack(dead)) end
  if #gone > 0 then remember_end(ARGV[2], table.concat(gone)) end
end

-- Messages that cannot end as asked stay claimed. Most batches have one state, so the table of transitions is looked up
-- once per state.
local known, barred = {}, {}
for i = 1, n do
  local to = state(ARGV[base + n + 2 * i])
  if known[to] == nil then
    known[to] = ends(to) and may(STATE_IN_FLIGHT, to, KIND_PLAIN)
    keeps = keeps or kept(to)
  end
  if not known[to] then
    local uid = ARGV[base + i]
    barred[uid] = true
    if claimed(uid) == ARGV[claim + i] then refuse(uid, STATE_IN_FLIGHT, to, KIND_PLAIN, ARGV[2]) end
  end
end

local held, all = {}, next(barred) == nil
each(n, 1000, function(from, to)
  local claims = redis.call('HMGET', CLAIMED, unpack(ARGV, base + from, base + to))
  for i = from, to do
    held[i] = claims[i - from + 1] == ARGV[claim + i]
    all = all and held[i]
  end
end)

local ended, only = n, {}
if all then -- nearly always: no list is needed, and the counts given by topic apply
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
      if held[i] and not barred[uid] then
        list[#list + 1] = uid
        push(pairs, uid, record)
        -- The topic is read from the record of the end: the stored record may be damaged.
        if redis.call('HEXISTS', MSG, uid) == 1 then tally(topic(content(record)), -1) end
      end
    end
    if #list > 0 then finish(list, 1, #list, pairs, 1, #pairs) end
    ended = ended + #list
    only[#only + 1] = table.concat(list)
  end)
end
local entry, some = '', table.concat(only)
if ended > 0 then
  count()
  if some == '' then
    entry = note(ended, #ARGV[4], 'e', ARGV[4])
  else
    entry = note(ended, #ARGV[4] + #some, 'e', ARGV[4], 'o', some)
  end
end
return {tostring(ended), some, entry}
