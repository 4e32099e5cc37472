-- For luacheck: what Redis gives a script, and what scripts.go puts before it.
std = "lua51"
max_line_length = 120
-- ends and kept are made from the table of states.
read_globals = {"redis", "struct", "bit", "cjson", "KEYS", "ARGV", "ends", "kept"}

-- lib.lua stands before every script as far as the script calls it, and server.lua and certified.lua before most.
for _, file in ipairs {"lib", "server", "certified"} do
  for line in io.lines("store/timeline/lua/" .. file .. ".lua") do
    local names = line:match("^local function ([%w_]+)") or line:match("^local ([%w_, ]+) =") or ""
    for name in names:gmatch("[%w_]+") do table.insert(read_globals, name) end
  end
end

-- Names in capitals are keys, states and kinds: scripts.go puts them in, and a test of store/timeline holds them.
ignore = {"113/[A-Z][A-Z_]*"}

-- What these declare is used by the scripts after them.
for _, file in ipairs {"lib", "server", "certified"} do
  files["store/timeline/lua/" .. file .. ".lua"] = {ignore = {"211", "311"}}
end
