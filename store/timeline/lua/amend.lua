-- amend changes a waiting message, or says why it cannot. Any instance may call it.
-- KEYS due msg claimed mark big pull pulls lease expires name
-- ARGV 1 uid, or '' for the message that is the sole one of a name (lib.lua), in any version, if the due time differs
--      2 version it must have  3 priority and due as they are packed, nine bytes; by name the due time alone  4 cause
--      5 headers and body as they are packed, '' to keep them  6 limit of the outbox in bytes
--      7 id  8 topic  9 key of that name
-- Result: code (0 unknown, 1 done, 2 in flight, 3 maybe delivered, 4 ended, 5 another
--      version, 6 consumers have tried what is to get other content), record without
--      body, mark, which orders begin earlier (lib.lua, hasten), entry of the outbox, uid
-- Outbox: uid and amended form.
-- Twice: the version is one higher and the message is as requested, so the code is 1 again;
-- by its name, it is unknown.
local uid, place, new, old = ARGV[1], ARGV[3], ARGV[5]
if uid == '' then
  uid, old = sole(ARGV[7], ARGV[8], ARGV[9])
  place = old and string.sub(old, 3, 3) .. place
  if old and string.sub(old, 3, 11) == place then old = nil end
else
  old = redis.call('HGET', MSG, uid)
end
if not old then return {'0', '', '', hastened, '', uid} end
if not sound(old) then return unsound(uid, old) end
if not live(old) then return {'4', first(old), '', hastened, '', uid} end
local mark = marked(uid, old)
local function answer(code) return {code, first(old), mark, hastened, '', uid} end
if holder(uid, old) then return answer('2') end
if uncertain(mark) then return answer('3') end
local other = new ~= '' and string.sub(old, #meta(old) + 1) ~= new
local asked, have = tonumber(ARGV[2]), version(old, mark)
if ARGV[1] ~= '' and have ~= asked then
  return answer(have == asked + 1 and string.sub(old, 3, 11) == place and not other and '1' or '5')
end
if other and tried(old, mark) then return answer('6') end
local full = overfull(ARGV[6])
if full then return full end
local refusals = numbers(mark)
local value = string.sub(old, 1, 2) .. place .. string.sub(old, 12)
if other then
  value = meta(value) .. new
  refusals = '0' -- they refer to the content before
end
local was = mark
mark = (handed(mark) and '2:' or '0:') .. refusals .. ':' .. string.format('%.0f', have) .. ':'
  .. (refusals ~= '0' and last(mark) or '')
local before = head(DUE)
-- A time to live counts from when the message was last asked to be due. A retry is not asked for.
local expires = due(value) == due(old) and redis.call('ZSCORE', EXPIRES, uid) or nil
leave(old, was, uid)
redis.call('HDEL', MARK, uid)
redis.call('HSET', MARK, uid, mark)
redis.call('HSET', MSG, uid, value)
enter(value, uid, before, expires)
if #value > 16384 then redis.call('SET', BIG, '1') end
local form = amended(value, mark, ARGV[4], new ~= '' and value or '')
local entry = note(1, #uid + #form, uid, form)
return {'1', meta(value), mark, hastened, entry, uid}
