-- pauses lists what is paused. It writes nothing.
-- KEYS 1 paused
-- Result: pattern, and since when and by whom, of each; with '' when the last change was.
return redis.call('HGETALL', KEYS[1])
