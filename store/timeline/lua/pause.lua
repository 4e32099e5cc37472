-- pause holds a pattern of topics back.
-- KEYS 1 paused
-- ARGV 1 pattern  2 since when in ms, and by whom  3 how many patterns at most
-- Result: OK, or the error PAUSES where so many are there. Twice: the same is written.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return redis.error_reply('PAUSES ' .. ARGV[3] .. ' are there')
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.status_reply('OK')
