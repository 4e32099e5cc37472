-- lanes lists the lanes that hold messages.
-- KEYS lanes
-- Result: names. It writes nothing.
local held = {}
for _, lane in ipairs(redis.call('SMEMBERS', LANES)) do
  if redis.call('EXISTS', parked(lane)) == 1 then held[#held + 1] = lane end
end
return held
