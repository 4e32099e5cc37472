-- cancel ends a waiting message, or says why it cannot. Any instance may call it.
-- KEYS due msg claimed mark ended next counts pull pulls lease expires name
-- ARGV 1 uid, or '' for the message that is the sole one of a name (lib.lua)  2 now in ms
--      3 id  4 topic  5 key of that name
-- Result: code (0 unknown, 1 done, 2 in flight, 3 maybe delivered, 4 ended otherwise),
--      record without body, mark, entry of the outbox, uid
-- Outbox: uid and record of the cancel.
-- Twice: a message that was canceled gets the same code again; by its name, it is unknown.
local uid, record = ARGV[1]
if uid == '' then
  uid, record = sole(ARGV[3], ARGV[4], ARGV[5])
else
  record = redis.call('HGET', MSG, uid)
end
if not record then return {'0', '', '', '', uid} end
if not sound(record) then return unsound(uid, record) end
if not live(record) then
  if state(record) ~= STATE_CANCELED then return {'4', first(record), '', '', uid} end
  return {doubtful(record) and '3' or '1', first(record), '', '', uid}
end
local mark = marked(uid, record)
if holder(uid, record) then return {'2', first(record), mark, '', uid} end
take_out(record, mark, uid)
tally(topic(record), -1)
count()
local log = {}
close(uid, record, mark, ARGV[2], '', log)
return {uncertain(mark) and '3' or '1', log[2], '', note(1, #uid + #log[2], unpack(log)), uid}
