-- ready tells what is ready on topics. It writes nothing but the time of a topic in pulls.
-- KEYS pulls
-- ARGV 1 now in ms; then for each topic: name, and how many messages are wanted, 0 for only the time
-- Result: for each topic that it reached: the places of its first ready messages in their order, joined by blanks; a
--      time no later than when the next one is due, '' for none
-- It stops once it has found 2,000 places. The time of a topic in pulls may be too early, since what leaves an order
-- does not look for the next. A script that finds nothing ready by then corrects it. Twice: the same.
local now, names, result, spent = tonumber(ARGV[1]), {}, {}, 0
for i = 2, #ARGV, 2 do names[#names + 1] = ARGV[i] end
local times = #names > 0 and redis.call('ZMSCORE', PULLS, unpack(names)) or {}
for i, on in ipairs(names) do
  local at, want, places = tonumber(times[i] or ''), tonumber(ARGV[2 * i + 1]), {}
  if at and at <= now and want > 0 then
    if spent >= 2000 then break end
    local found = ready(queue(on), now, want, 'WITHSCORES')
    for j = 2, #found, 2 do places[#places + 1] = found[j] end
    spent = spent + #places + 4
    if #places == 0 then at = correct(on) end
  end
  push(result, table.concat(places, ' '), at and string.format('%.0f', at) or '')
end
return result
