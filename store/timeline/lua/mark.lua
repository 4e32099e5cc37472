-- mark records the number of buckets, or that it changes (rebucket.go).
-- KEYS meta
-- ARGV 1 term  2 number, or the highest one and the next  3 layout
-- Result: OK, or the error STALE after a mark of a later term. Twice: the same is written.
local term = redis.call('HGET', META, 'term') or '0'
if tonumber(term) > tonumber(ARGV[1]) then
  return redis.error_reply('STALE mark of term ' .. term .. ', given ' .. ARGV[1])
end
redis.call('HDEL', META, 'term', 'buckets') -- so that a full Redis does not refuse the rest
redis.call('HSET', META, 'buckets', ARGV[2], 'layout', ARGV[3], 'term', ARGV[1])
return redis.status_reply('OK')
