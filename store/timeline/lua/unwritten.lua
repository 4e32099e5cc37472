-- unwritten reads the outbox. It writes nothing.
-- ARGV 1 id to start after, ''  2 age in ms  3 limit  4 bytes
-- Result: for each entry: id, list of its fields
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = now - tonumber(ARGV[2])
local from, found, size = ARGV[1] == '' and '-' or '(' .. ARGV[1], {}, 0
local limit, bytes, many = tonumber(ARGV[3]), tonumber(ARGV[4]), 8
while #found < 2 * limit do
  local step = redis.call('XRANGE', OUTBOX, from, '+', 'COUNT', math.min(many, limit - #found / 2))
  for _, entry in ipairs(step) do
    local id, fields = entry[1], entry[2]
    local own = counted(entry)
    size = size + own
    if own * 8 > bytes then many = 1 end -- big ones are read one by one
    local at = tonumber(string.match(id, '^%d+'))
    -- An id in the future means that this server's clock was set back. Its entry counts as old enough: its writer
    -- has had its time, or loses only a little of it.
    if (at > last and at <= now + 1000) or (size > bytes and #found > 0) then return found end
    push(found, id, fields)
    from = '(' .. id
  end
  if #step == 0 then break end
end
return found
