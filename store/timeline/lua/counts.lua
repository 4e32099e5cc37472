-- counts tells how many messages of topics wait, are in flight and are dead. It
-- writes nothing.
-- KEYS 1 counts
-- ARGV 1 how many topics at most; then topics, or none for those that have any
-- Result: 'more' where there may be more than those, else ''; then for each topic: name and the three counts
local result, topics, limit = {''}, {}, tonumber(ARGV[1])
for i = 2, #ARGV do topics[#topics + 1] = ARGV[i] end
if #ARGV == 1 then
  local cursor, seen = '0', {}
  repeat
    local step = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 1000)
    cursor = step[1]
    for i = 1, #step[2], 2 do
      local name = string.sub(step[2][i], 1, -3)
      if name == '' or seen[name] then -- the field that is no count has no name
      elseif #topics == limit then
        result[1] = 'more'
      else
        seen[name] = true
        topics[#topics + 1] = name
      end
    end
  until cursor == '0' or result[1] ~= ''
end
for _, name in ipairs(topics) do
  local n = redis.call('HMGET', KEYS[1], name .. '\0w', name .. '\0i', name .. '\0d')
  result[#result + 1] = name
  for i = 1, 3 do result[#result + 1] = n[i] or '0' end
end
return result
