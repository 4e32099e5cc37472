-- time returns the server's time, as TIME does. It writes nothing.
-- KEYS gen
-- Result: seconds, microseconds
return redis.call('TIME')
