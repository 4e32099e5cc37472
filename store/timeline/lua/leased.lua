-- leased walks the leased messages. It writes nothing.
-- KEYS lease
-- ARGV 1 cursor, '0' at first  2 how many to look at
-- Result: the next cursor, '0' at the end; then uids. A lease that is there throughout is met, perhaps twice.
local found = redis.call('HSCAN', LEASE, ARGV[1], 'COUNT', ARGV[2])
local result = {found[1]}
for i = 1, #found[2], 2 do
  if found[2][i] ~= '' then result[#result + 1] = found[2][i] end
end
return result
