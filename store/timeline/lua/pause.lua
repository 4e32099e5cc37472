-- pause holds back a pattern of topics.
-- KEYS paused
-- ARGV 1 pattern  2 time of the call in ms  3 by whom  4 how many patterns at most
-- Result: since when it is paused; or the error PAUSES if there are as many patterns already.
-- Twice: a pause by the same caller that was recorded at the time of the call or later stays as it is.
local stands, last = unpack(redis.call('HMGET', PAUSED, ARGV[1], ''))
if stands then
  local since, by = string.match(stands, '^(%d+) (.*)$')
  if since and by == ARGV[3] and tonumber(since) >= tonumber(ARGV[2]) then return {since} end
elseif redis.call('HLEN', PAUSED) - (last and 1 or 0) >= tonumber(ARGV[4]) then
  return redis.error_reply('PAUSES ' .. ARGV[4] .. ' are there')
end
local at = string.format('%.0f', math.max((tonumber(last) or 0) + 1, tonumber(ARGV[2])))
redis.call('HDEL', PAUSED, ARGV[1]) -- a removal, so that a full Redis does not refuse it
redis.call('HSET', PAUSED, ARGV[1], at .. ' ' .. ARGV[3], '', at)
return {at}
