-- lanes lists the lanes that hold messages.
-- KEYS 1 lanes
-- ARGV 1 prefix of the bucket's lanes
-- Result: names. It writes nothing.
local held = {}
for _, lane in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if redis.call('EXISTS', ARGV[1] .. lane) == 1 then held[#held + 1] = lane end
end
return held
