-- server stands before every script that depends on a certification: it finds out which data set answers (doc.go,
-- Certifications). It refuses a replica, whose data may be old.
local SERVER = redis.call('INFO', 'replication')
if not string.find(SERVER, 'role:master', 1, true) then
  return redis.error_reply('READONLY this server is a replica')
end
local _, before = string.find(SERVER, 'master_replid:', 1, true)
local HISTORY = string.sub(SERVER, before + 1, before + 16)

-- present names the data set that answers: beginnings of the server's run id, of the id of its history, and of the id
-- of the previous history.
local function present()
  return string.sub(string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), 1, 16) .. HISTORY ..
    string.sub(string.match(SERVER, 'master_replid2:(%x+)'), 1, 8)
end

-- same reports whether the named data set is that of this server: its history continues, or has a new id on the same
-- run without another history before it.
local function same(named)
  if string.sub(named, 17, 32) == HISTORY then return true end
  local now = present()
  local earlier = string.sub(now, 33)
  return string.sub(named, 1, 16) == string.sub(now, 1, 16)
    and (earlier == '00000000' or earlier == string.sub(named, 33))
end

