-- reject writes to the outbox that a push is not accepted, and changes nothing else.
-- ARGV 1 uid  2 its change, in the outbox's form  3 limit of the outbox in bytes
-- Result: entry of the outbox
-- Twice: two entries, of which the journal keeps one.
local uid, form, limit = unpack(ARGV)
local full = overfull(limit)
if full then return full end
return {note(1, #uid + #form, uid, form)}
