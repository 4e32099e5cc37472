-- lanes lists the lanes that hold messages. It writes nothing.
-- KEYS lanes
-- Result: for each: name, how many messages it has, the earliest of their own places
local held = {}
for _, lane in ipairs(redis.call('SMEMBERS', LANES)) do
  local first, later = head(parked(lane)), head(behind(lane))
  if first then
    if later and tonumber(later) < tonumber(first) then first = later end
    push(held, lane, tostring(redis.call('ZCARD', parked(lane))))
    held[#held + 1] = first
  end
end
return held
