-- failing notes that a webhook's target failed, or that it did not.
-- KEYS failing
-- ARGV 1 target  2 when it failed in ms, 0 if it did not
-- Result: since when it fails, '' if it does not.
-- Twice: the first time stands.
if ARGV[2] == '0' then
  redis.call('HDEL', FAILING, ARGV[1])
else
  redis.call('HSETNX', FAILING, ARGV[1], ARGV[2])
end
return {redis.call('HGET', FAILING, ARGV[1]) or ''}
