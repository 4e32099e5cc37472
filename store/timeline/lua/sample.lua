-- sample reads the topics of messages that fall due within a span and that nothing holds back, and of those for pull,
-- from places spread evenly over them. It writes nothing.
-- KEYS due pull msg
-- ARGV 1 lowest score  2 score above the highest  3 at how many places in all  4 how many neighbours at each  5 first
--      place, from 0  6 last place  7 the longest record to read
-- Result: how many there are; then for each that was read: score, topic or ''
local orders, total = {}, 0
for i, key in ipairs({DUE, PULL}) do
  local before = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[1])
  orders[i] = {key, before, redis.call('ZCOUNT', key, ARGV[1], '(' .. ARGV[2])}
  total = total + orders[i][3]
end
local run, longest = tonumber(ARGV[4]), tonumber(ARGV[7])
local apart, found = math.max(total / tonumber(ARGV[3]), run), {tostring(total)}
for place = tonumber(ARGV[5]), tonumber(ARGV[6]) do
  local from, to = math.floor(place * apart), math.floor(place * apart) + run -- in the orders one after the other
  for _, order in ipairs(orders) do
    local first, last = math.max(from, 0), math.min(to, order[3]) - 1
    if first <= last then
      local members = redis.call('ZRANGE', order[1], order[2] + first, order[2] + last, 'WITHSCORES')
      for i = 1, #members, 2 do
        local record = redis.call('HSTRLEN', MSG, members[i]) <= longest and redis.call('HGET', MSG, members[i])
        push(found, members[i + 1], record and sound(record) and live(record) and topic(record) or '')
      end
    end
    from, to = from - order[3], to - order[3]
  end
end
return found
