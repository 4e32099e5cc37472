-- pauses lists the pauses. It writes nothing.
-- KEYS paused
-- Result: pattern, and since when and by whom, of each; for '' the time of the last change.
return redis.call('HGETALL', PAUSED)
