-- cancel ends a waiting message, or says why not. Any instance may call it.
-- KEYS 1 due  2 msg  3 claimed  4 mark  5 ended  6 next  7 counts
-- ARGV 1 uid  2 now in ms  3 prefix of the bucket's lanes
-- Result: code (0 unknown, 1 done, 2 in flight, 3 maybe delivered, 4 ended otherwise),
--      record without body, mark, entry of the outbox
-- Outbox: uid and record of the cancel.
-- Twice: the answer stays what the first one was.
local uid = ARGV[1]
local record = redis.call('HGET', KEYS[2], uid)
if not record then return {'0', '', '', ''} end
if not sound(record) then return unsound(uid, record) end
if string.byte(record, 1) == 2 then
  if string.byte(record, 2) ~= 4 then return {'4', first(record), '', ''} end
  return {string.byte(record, 3) % 2 == 1 and '3' or '1', first(record), '', ''}
end
local mark = effective(redis.call('HGET', KEYS[4], uid), record)
if redis.call('HEXISTS', KEYS[3], uid) == 1 then return {'2', first(record), mark, ''} end
local uncertain = string.byte(mark, 1) == 49
leave(KEYS[1], ARGV[3], mark, uid)
redis.call('HDEL', KEYS[4], uid)
redis.call('HDEL', KEYS[6], uid)
tally(topic(record), -1)
count(KEYS[7])
local ended = canceled(record, tonumber(ARGV[2]), uncertain, '', 2 + changes(mark))
redis.call('HSET', KEYS[2], uid, ended)
redis.call('RPUSH', KEYS[5], string.format('%013d', ARGV[2]) .. uid)
local entry = ''
if CONTEXT ~= '' then entry = note(1, #uid + #ended, uid, ended) end
return {uncertain and '3' or '1', ended, '', entry}
