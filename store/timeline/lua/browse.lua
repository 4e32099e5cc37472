-- browse reads a page of an order, from a place in it. It writes nothing.
-- KEYS due msg mark lanes dead pull
-- ARGV 1 'dead', 'pull', 'lane:' and a lane, or '' for waiting messages: first in due, then in the lanes by
--      name, then those for pull
--      2 lowest score  3 highest, or '+inf'  4 limit  5 bytes (a page has at least one message)
--      then the place of the last message of the previous page, '' for none: 6 its order ('due', 'dead', 'pull'
--      or 'lane:' and the lane)  7 its score  8 its uid
-- Result: order, score and uid of the last message read if more follow, else '' each;
--      then for each: uid, record without body, mark
-- Messages that are missing or cannot be read are skipped: a page may be short.
local limit, bytes, highest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[3])
local found, size = {'', '', ''}, 0

-- walk reads messages from an order and reports whether the page is full.
local function walk(key, name)
  local at = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[2])
  if name == ARGV[6] then at = math.max(at, after(key, ARGV[7], ARGV[8])) end
  local left = limit - (#found - 3) / 3
  local members = redis.call('ZRANGE', key, at, at + left, 'WITHSCORES') -- one more, to see whether more follow
  for i = 1, #members, 2 do
    local uid, score = members[i], members[i + 1]
    if tonumber(score) > highest then return false end
    if left == 0 or (size > bytes and #found > 3) then return true end
    local record = redis.call('HGET', MSG, uid)
    if record and sound(record) then
      push(found, uid, first(record))
      found[#found + 1] = marked(uid, record)
      size = size + #record
    end
    found[1], found[2], found[3] = name, score, uid
    left = left - 1
  end
  return false
end

local full = false
if ARGV[1] == 'dead' then
  full = walk(DEAD, 'dead')
elseif ARGV[1] == 'pull' then
  full = walk(PULL, 'pull')
elseif ARGV[1] ~= '' then
  full = walk(parked(string.sub(ARGV[1], 6)), ARGV[1])
else
  if ARGV[6] == '' or ARGV[6] == 'due' then full = walk(DUE, 'due') end
  local lanes = full and {} or redis.call('SMEMBERS', LANES)
  table.sort(lanes)
  for _, lane in ipairs(lanes) do
    if not full and 'lane:' .. lane >= ARGV[6] then full = walk(parked(lane), 'lane:' .. lane) end
  end
  if not full then full = walk(PULL, 'pull') end
end
if not full then found[1], found[2], found[3] = '', '', '' end
return found
