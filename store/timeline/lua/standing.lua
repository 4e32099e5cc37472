-- standing tells how a bucket is certified. It writes nothing.
-- KEYS 1 gen
-- KEYS 2 outbox
-- Result: run id of the server, certification as it is written or '', id of the last
--      entry that ever stood in the outbox or ''
local last = ''
local info = redis.pcall('XINFO', 'STREAM', KEYS[2])
for i = 1, info.err and 0 or #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
return {string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), redis.call('GET', KEYS[1]) or '', last}
