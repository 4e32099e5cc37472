-- browse looks at messages in an order, from a place in it. It writes nothing.
-- KEYS 1 due  2 msg  3 mark  4 lanes  5 dead
-- ARGV 1 'dead', or '' for what waits: first in due, then in the lanes by name
--      2 lowest score  3 highest, or '+inf'  4 limit  5 bytes (one message always comes)
--      6 prefix of the bucket's lanes; then the place of the last message of the page
--      before, '' for none: 7 its order ('due', 'dead' or 'lane:' and the lane)
--      8 its score  9 its uid
-- Result: order, score and uid of the last message looked at where more follow, else '' each;
--      then for each: uid, record without body, mark
-- What cannot be read, or is not there, is passed over: a page may be short.
-- A place is found by halving, so a page costs the same wherever it begins, however
-- many share its score and whether or not its message is still there.
local limit, bytes, highest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[3])
local found, size, marked = {'', '', ''}, 0, redis.call('EXISTS', KEYS[3]) == 1

-- after is how many members of an order stand at or before a place in it.
local function after(key, score, uid)
  local from, to = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= uid then from = middle + 1 else to = middle end
  end
  return from
end

-- walk takes messages from an order and reports whether the page is full.
local function walk(key, name)
  local at = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[2])
  if name == ARGV[7] then at = math.max(at, after(key, ARGV[8], ARGV[9])) end
  local left = limit - (#found - 3) / 3
  local members = redis.call('ZRANGE', key, at, at + left, 'WITHSCORES') -- one more: does anything follow?
  for i = 1, #members, 2 do
    local uid, score = members[i], members[i + 1]
    if tonumber(score) > highest then return false end
    if left == 0 or (size > bytes and #found > 3) then return true end
    local record = redis.call('HGET', KEYS[2], uid)
    if record and sound(record) then
      local mark = marked and redis.call('HGET', KEYS[3], uid) or ''
      if string.byte(record, 1) == 1 then mark = effective(mark, record) end
      for _, v in ipairs({uid, first(record), mark}) do found[#found + 1] = v end
      size = size + #record
    end
    found[1], found[2], found[3] = name, score, uid
    left = left - 1
  end
  return false
end

local full = false
if ARGV[1] == 'dead' then
  full = walk(KEYS[5], 'dead')
else
  if ARGV[7] == '' or ARGV[7] == 'due' then full = walk(KEYS[1], 'due') end
  local lanes = full and {} or redis.call('SMEMBERS', KEYS[4])
  table.sort(lanes)
  for _, parked in ipairs(lanes) do
    if not full and 'lane:' .. parked >= ARGV[7] then full = walk(ARGV[6] .. parked, 'lane:' .. parked) end
  end
end
if not full then found[1], found[2], found[3] = '', '', '' end
return found
