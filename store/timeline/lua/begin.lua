-- begin raises the bucket's term.
-- KEYS term
-- ARGV 1 term
-- Result: OK. Twice: the stored term is already this one.
local stale = check(ARGV[1])
if stale then return stale end
return redis.status_reply('OK')
