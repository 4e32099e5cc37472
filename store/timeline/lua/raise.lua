-- raise lets the certification of a bucket say that no message for pull is in doubt: layout 6 had none.
-- KEYS gen
-- Result: '1' if this call did so, else '0'. Twice: it says so already.
local gen = redis.call('GET', GEN)
if not gen or not string.match(gen, '^%d+ %x+ %d+ %a+$') then return '0' end
redis.call('DEL', GEN) -- so that a full Redis does not refuse it
redis.call('SET', GEN, gen .. ' 0')
return '1'
