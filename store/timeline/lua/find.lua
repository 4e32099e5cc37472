-- find reads messages by uid or by client id. It writes nothing.
-- KEYS 1 msg  2 name  3 claimed  4 mark  5 names
-- ARGV 1 uid, or '' for a client id, and then: 2 id  3 topic, '' for any  4 'k' where
--      a key is given  5 key  6 how many names at most  7 where to go on, '' at first
--      8 and on: where the topic is any, patterns of which it must match one, if there
--      are any, as Lua writes them
-- Result: where to go on, '' where all was looked at; then for each message: uid,
--      record, '1' when claimed, mark
-- One call looks at a thousand names of an id, and at the messages of one name more
-- than asked for: so who asks learns that there are more.
local result = {''}
local function tell(uid)
  local record = redis.call('HGET', KEYS[1], uid)
  if not record then return end
  result[#result + 1] = uid
  result[#result + 1] = record
  result[#result + 1] = redis.call('HEXISTS', KEYS[3], uid) == 1 and '1' or ''
  local mark = redis.call('HGET', KEYS[4], uid) or ''
  if string.byte(record, 1) == 1 and sound(record) then mark = effective(mark, record) end
  result[#result + 1] = mark
end

-- fits reports whether a name, of the given length of id, is asked for.
local function fits(name, id)
  local at = id + 2
  local topic, key = string.sub(name, at + 1, at + string.byte(name, at)), nil
  key = string.sub(name, at + #topic + 1)
  if ARGV[4] == 'k' and key ~= ARGV[5] then return false end
  for i = 8, #ARGV do
    if string.match(topic, ARGV[i]) then return true end
  end
  return #ARGV < 8
end

local id, topic = ARGV[2], ARGV[3]
if ARGV[1] ~= '' then
  tell(ARGV[1])
elseif topic ~= '' and ARGV[4] == 'k' then
  attempts(redis.call('HGET', KEYS[2], field(id, topic, ARGV[5])), tell)
else
  local names, n = listed(KEYS[5], id, topic, ARGV[7], 1000), 0
  if #names == 1000 then result[1] = names[1000] end
  for _, name in ipairs(names) do
    if fits(name, #id) then
      n = n + 1
      attempts(redis.call('HGET', KEYS[2], name), tell)
      if n > tonumber(ARGV[6]) then break end
    end
  end
end
return result
