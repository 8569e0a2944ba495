-- One node's heartbeat. KEYS: the fleet's list. ARGV: 1 the node's id, 16 bytes. Gives the number of nodes that beat
-- within the last three seconds, and this node's place among them by id.
-- The list: 24 bytes a node, the id and the microseconds of its last beat, in the order of the ids.
local call = redis.call
local pack, read, sub = struct.pack, struct.unpack, string.sub
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local id = ARGV[1]
local list = call('GET', KEYS[1]) or ''
local kept, count, index = {}, 0, nil
local function keep(entry)
  count = count + 1
  kept[count] = entry
end
local function beat()
  index = count
  keep(id .. pack('<d', now))
end
for at = 1, #list - 23, 24 do
  local other = sub(list, at, at + 15)
  if not index and other >= id then beat() end
  local age = now - read('<d', list, at + 16)
  -- Also what is far ahead goes: the clock stepped back, and whoever lives beats again.
  if other ~= id and age < 3000000 and age > -3000000 then keep(sub(list, at, at + 23)) end
end
if not index then beat() end
call('SET', KEYS[1], table.concat(kept), 'PX', 10000)
return {count, index}
