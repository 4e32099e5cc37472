-- hold keeps instances out of a bucket while its messages move to other buckets (rebucket.go): without the form of
-- a certification, its gen lets no script of theirs run. Only the end of the move certifies the bucket anew.
-- KEYS gen term trimmed outbox quarantine
-- ARGV 1 term  2 data set when this call held the bucket before, ''  3 '1' if nothing but leavings can be here, so that
--      it needs no certification
-- Result: data set of the server; 'whole' or 'audited', as its certification says, if it is ARGV 2 or, without that,
--      is certified; the doubts of the certification, and the latest end that was forgotten, in ms. Or the error
--      BEHIND, and it is not held.
-- Twice: it is held.
local stale = check(ARGV[1])
if stale then return stale end
local gen = redis.call('GET', GEN) or ''
local was = string.match(gen, '^held (.*)$')
if not was or ARGV[3] == '1' then
  if redis.call('XLEN', OUTBOX) + redis.call('XLEN', QUARANTINE) > 0 then
    return redis.error_reply('BEHIND its outbox or its quarantine is not empty')
  end
  was = ARGV[3] == '1' and '0 ' .. present() .. ' 0 whole 0' or gen
  redis.call('DEL', GEN) -- so that a full Redis does not refuse it
  redis.call('SET', GEN, 'held ' .. was)
end
local run, since, phase, pull = string.match(was, '^%d+ (%x+) (%d+) (%a+) (%d+)$')
local whole = run and phase ~= 'filling' and same(run)
if ARGV[2] ~= '' then whole = same(ARGV[2]) end
if phase ~= 'audited' then phase = 'whole' end
return {present(), whole and phase or '', since or '0', pull or '0', redis.call('GET', TRIMMED) or '0'}
