-- find reads messages by uid or by client id. It writes nothing.
-- KEYS msg name claimed mark names lease expires
-- ARGV 1 uid, or '' for a client id, and then: 2 id  3 topic, '' for any  4 'k' if
--      a key is given  5 key  6 how many names at most  7 where to continue, '' at first
--      8 and on: if the topic is open, Lua patterns of which it must match one, if there
--      are any
-- Result: where to continue, '' at the end; then for each message: uid,
--      record, '1' when claimed, mark, end of its time to live or ''
-- One call reads up to a thousand names of an id, and the messages of one name more than asked for, so that the caller
-- learns that there are more.
local result = {''}
local function collect(uid)
  local record = redis.call('HGET', MSG, uid)
  if not record then return end
  push(result, uid, record)
  push(result, holder(uid, record) and '1' or '', sound(record) and marked(uid, record) or '')
  result[#result + 1] = redis.call('ZSCORE', EXPIRES, uid) or ''
end

-- fits reports whether a name is asked for; id is the length of its id.
local function fits(name, id)
  local at = id + 2
  local topic = string.sub(name, at + 1, at + string.byte(name, at))
  local key = string.sub(name, at + #topic + 1)
  if ARGV[4] == 'k' and key ~= ARGV[5] then return false end
  for i = 8, #ARGV do
    if string.match(topic, ARGV[i]) then return true end
  end
  return #ARGV < 8
end

local id, topic = ARGV[2], ARGV[3]
if ARGV[1] ~= '' then
  collect(ARGV[1])
elseif topic ~= '' and ARGV[4] == 'k' then
  attempts(redis.call('HGET', NAME, field(id, topic, ARGV[5])), collect)
else
  local names, n = listed(id, topic, ARGV[7], 1000), 0
  if #names == 1000 then result[1] = names[1000] end
  for _, name in ipairs(names) do
    if fits(name, #id) then
      n = n + 1
      attempts(redis.call('HGET', NAME, name), collect)
      if n > tonumber(ARGV[6]) then break end
    end
  end
end
return result
