-- pause holds a pattern of topics back.
-- KEYS 1 paused
-- ARGV 1 pattern  2 when it is asked for, in ms  3 by whom  4 how many patterns at most
-- Result: since when it stands; or the error PAUSES where so many are there.
-- Twice: who has paused it already, and no earlier, changes nothing.
local stands, last = unpack(redis.call('HMGET', KEYS[1], ARGV[1], ''))
if stands then
  local since, by = string.match(stands, '^(%d+) (.*)$')
  if since and by == ARGV[3] and tonumber(since) >= tonumber(ARGV[2]) then return {since} end
elseif redis.call('HLEN', KEYS[1]) - (last and 1 or 0) >= tonumber(ARGV[4]) then
  return redis.error_reply('PAUSES ' .. ARGV[4] .. ' are there')
end
local at = string.format('%.0f', math.max((tonumber(last) or 0) + 1, tonumber(ARGV[2])))
redis.call('HDEL', KEYS[1], ARGV[1]) -- first, so that a full Redis does not refuse it
redis.call('HSET', KEYS[1], ARGV[1], at .. ' ' .. ARGV[3], '', at)
return {at}
