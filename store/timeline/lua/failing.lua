-- failing notes that a webhook's target failed, or that it did not.
-- KEYS failing
-- ARGV 1 target  2 when it failed in ms, 0 if it did not  3 ms: a failure that comes later after the last one is the
--      first again
-- Result: since when it fails, '' if it does not.
-- Twice: the first time stands.
if ARGV[2] == '0' then
  redis.call('HDEL', FAILING, ARGV[1])
  return {''}
end
local since, last = string.match(redis.call('HGET', FAILING, ARGV[1]) or '', '^(%d+) (%d+)$')
if not since or tonumber(last) + tonumber(ARGV[3]) < tonumber(ARGV[2]) then since = ARGV[2] end
redis.call('HSET', FAILING, ARGV[1], since .. ' ' .. ARGV[2])
return {since}
