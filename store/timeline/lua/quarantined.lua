-- quarantined lists some entries that are quarantined. It writes nothing.
-- KEYS 1 quarantine
-- ARGV 1 the id there to start after, ''  2 limit
-- Result: the id there of the last one, then of each its place, when, why, whether the
--      journal knows the states since, and uids, as quarantine wrote them; '' for what is
--      not there. Where the one to start after is gone it starts with the first.
local after = ARGV[1]
local here = after ~= '' and #redis.call('XRANGE', KEYS[1], after, after) > 0
local found = {after}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], here and '(' .. after or '-', '+', 'COUNT', ARGV[2])) do
  local told, seen = {'', '', '', '', ''}, {entry = 1, at = 2, why = 3, known = 4, uids = 5}
  for i = 1, math.min(#entry[2], 10), 2 do
    local place = seen[entry[2][i]]
    if place then told[place] = entry[2][i + 1] end
  end
  found[1] = entry[1]
  found[#found + 1] = told
end
return found
