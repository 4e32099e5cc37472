-- standing tells how a bucket is certified. It writes nothing.
-- KEYS 1 gen
-- Result: run id of the server, certification as it is written or ''
return {string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), redis.call('GET', KEYS[1]) or ''}
