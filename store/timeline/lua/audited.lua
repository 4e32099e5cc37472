-- audited notes that the first full audit since the bucket was certified is over.
-- Result: '1' if the certification says so now, '' while the bucket is filled. Twice: the same.
local gen = redis.call('GET', GEN)
if phase == 'whole' then redis.call('SET', GEN, (string.gsub(gen, ' whole', ' audited', 1))) end
return {phase == 'filling' and '' or '1'}
