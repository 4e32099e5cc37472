-- clear deletes keys of a bucket. Its term stays, and fences whoever would still write there.
-- KEYS gen term
-- ARGV 1 term  2 what gen becomes, '' if it stays; then names of keys
-- Result: how many there were. Twice: there are none.
local stale = check(ARGV[1])
if stale then return stale end
if ARGV[2] ~= '' then
  redis.call('DEL', GEN) -- so that a full Redis does not refuse it
  redis.call('SET', GEN, ARGV[2])
end
local n = 0
for i = 3, #ARGV do n = n + redis.call('DEL', string.sub(GEN, 1, -4) .. ARGV[i]) end
return n
