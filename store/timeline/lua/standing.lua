-- standing returns the certification of a bucket. It writes nothing.
-- KEYS gen outbox
-- Result: data set of the server, certification as it is written or '', id of the last
--      entry ever written to the outbox or '', time of the server in ms
local last = ''
local info = redis.pcall('XINFO', 'STREAM', OUTBOX)
for i = 1, info.err and 0 or #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
local t = redis.call('TIME')
local gen = redis.call('GET', GEN) or ''
local certified = string.match(gen, '^%d+ (%x+) ')
local run = certified and same(certified) and certified or present()
return {run, gen, last, string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}
