-- machine leases a slot, the machine id of sonyflake, by Redis's clock. Each key has its own slots.
-- KEYS machines
-- ARGV 1 incarnation  2 instance  3 lease in ms  4 slot to renew, '' to acquire  5 high water in ms
--      6 first slot of this key  7 its last
-- Each field is "<incarnation> <leased until> <high water> <instance>".
-- Result: slot or -1, the high water a new owner must wait for ('0' for none), who holds it.
-- Twice: the lease is renewed.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function read(slot)
  local v = redis.call('HGET', MACHINES, slot)
  if not v then return nil end
  local incarnation, leased, high, instance = string.match(v, '^(%S+) (%d+) (%d+) (.*)$')
  return {incarnation = incarnation, leased = tonumber(leased), high = high, instance = instance}
end
local function take(slot, high)
  redis.call('HSET', MACHINES, slot, string.format('%s %.0f %s %s', ARGV[1], now + tonumber(ARGV[3]), high, ARGV[2]))
end
if ARGV[4] ~= '' then
  local held = read(ARGV[4])
  if held and held.incarnation ~= ARGV[1] then return {'-1', '0', held.instance} end
  take(ARGV[4], ARGV[5])
  return {ARGV[4], '0', ARGV[2]}
end
-- The slot this instance had, else one never leased, else the one free for the longest.
local free, oldest
local all = redis.call('HGETALL', MACHINES)
local seen = {}
for i = 1, #all, 2 do
  local slot = all[i]
  local held = read(slot)
  seen[tonumber(slot)] = true
  if held.incarnation == ARGV[1] then free = slot break end
  if held.leased < now then
    if held.instance == ARGV[2] then free = slot break end
    if not oldest or held.leased < oldest.leased then oldest = {slot = slot, leased = held.leased} end
  end
end
if not free then
  for slot = tonumber(ARGV[6]), tonumber(ARGV[7]) do
    if not seen[slot] then free = tostring(slot) break end
  end
end
if not free and oldest then free = oldest.slot end
if not free then return {'-1', '0', 'all slots ' .. ARGV[6] .. ' to ' .. ARGV[7] .. ' are leased'} end
local before = read(free)
local high = before and before.high or '0'
take(free, high)
return {free, high, ARGV[2]}
