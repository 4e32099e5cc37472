-- time returns the server's time, as TIME does. It writes nothing.
-- KEYS 1 any key of a bucket: its server is asked
-- Result: seconds, microseconds
return redis.call('TIME')
