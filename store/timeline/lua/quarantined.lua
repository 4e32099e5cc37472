-- quarantined lists quarantined entries. It writes nothing.
-- KEYS quarantine
-- ARGV 1 the id there to start after, ''  2 limit
-- Result: id in the quarantine of the last one; then of each the id, when, why, whether the
--      journal knows the states since, and uids, as quarantine wrote them; '' for what is
--      missing. If the entry to start after is gone, it starts at the beginning.
local after = ARGV[1]
local here = after ~= '' and #redis.call('XRANGE', QUARANTINE, after, after) > 0
local found = {after}
for _, entry in ipairs(redis.call('XRANGE', QUARANTINE, here and '(' .. after or '-', '+', 'COUNT', ARGV[2])) do
  local row, seen = {'', '', '', '', ''}, {entry = 1, at = 2, why = 3, known = 4, uids = 5}
  for i = 1, math.min(#entry[2], 10), 2 do
    local place = seen[entry[2][i]]
    if place then row[place] = entry[2][i + 1] end
  end
  found[1] = entry[1]
  found[#found + 1] = row
end
return found
