-- amend changes a waiting message, or says why not. Any instance may call it.
-- KEYS 1 due  2 msg  3 claimed  4 mark  5 big
-- ARGV 1 uid  2 prefix of the bucket's lanes  3 version that must stand  4 score
--      5 priority and due as they are packed, nine bytes  6 cause  7 headers and body
--      as they are packed, '' where they stay
-- Result: code (0 unknown, 1 done, 2 in flight, 3 maybe delivered, 4 ended, 5 another
--      version), record without body, mark, the earliest score when this made it
--      earlier, entry of the outbox
-- Outbox: uid and amended form.
-- Twice: the version is one higher and what is asked for is true: done.
local uid, new = ARGV[1], ARGV[7]
local old = redis.call('HGET', KEYS[2], uid)
if not old then return {'0', '', '', '', ''} end
if not sound(old) then return unsound(uid, old) end
if string.byte(old, 1) == 2 then return {'4', first(old), '', '', ''} end
local mark = effective(redis.call('HGET', KEYS[4], uid), old)
local function answer(code) return {code, first(old), mark, '', ''} end
if redis.call('HEXISTS', KEYS[3], uid) == 1 then return answer('2') end
if string.byte(mark, 1) == 49 then return answer('3') end
local asked, have = tonumber(ARGV[3]), version(old, mark)
if have ~= asked then
  local same = have == asked + 1 and string.sub(old, 3, 11) == ARGV[5]
    and (new == '' or string.sub(old, #meta(old) + 1) == new)
  return answer(same and '1' or '5')
end
local refusals = numbers(mark)
local value = string.sub(old, 1, 2) .. ARGV[5] .. string.sub(old, 12)
if new ~= '' then
  value = meta(value) .. new
  refusals = '0' -- they were of the content before
end
local was = mark
mark = '0:' .. refusals .. ':' .. string.format('%.0f', have) .. ':'
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
leave(KEYS[1], ARGV[2], was, uid)
redis.call('HDEL', KEYS[4], uid)
redis.call('HSET', KEYS[4], uid, mark)
redis.call('HSET', KEYS[2], uid, value)
redis.call('ZADD', KEYS[1], ARGV[4], uid)
if #value > 16384 then redis.call('SET', KEYS[5], '1') end
local entry = ''
if CONTEXT ~= '' then
  local form = amended(value, mark, ARGV[6], new ~= '' and value or '')
  entry = note(1, #uid + #form, uid, form)
end
local earlier = not head or tonumber(ARGV[4]) < tonumber(head)
return {'1', meta(value), mark, earlier and ARGV[4] or '', entry}
