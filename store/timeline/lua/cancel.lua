-- cancel ends a waiting message, or says why it cannot. Any instance may call it.
-- KEYS due msg claimed mark ended next counts pull pulls lease expires
-- ARGV 1 uid  2 now in ms
-- Result: code (0 unknown, 1 done, 2 in flight, 3 maybe delivered, 4 ended otherwise),
--      record without body, mark, entry of the outbox
-- Outbox: uid and record of the cancel.
-- Twice: a message that was canceled gets the same code again.
local uid = ARGV[1]
local record = redis.call('HGET', MSG, uid)
if not record then return {'0', '', '', ''} end
if not sound(record) then return unsound(uid, record) end
if not live(record) then
  if state(record) ~= STATE_CANCELED then return {'4', first(record), '', ''} end
  return {doubtful(record) and '3' or '1', first(record), '', ''}
end
local mark = marked(uid, record)
if holder(uid, record) then return {'2', first(record), mark, ''} end
take_out(record, mark, uid)
tally(topic(record), -1)
count()
local log = {}
close(uid, record, mark, ARGV[2], '', log)
return {uncertain(mark) and '3' or '1', log[2], '', note(1, #uid + #log[2], unpack(log))}
