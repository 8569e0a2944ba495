-- Every group in turn. A group: mode, flags, number of operations, id, max_wait, keep, fingerprint; then perhaps what it
-- brings to hold; then its operations.

local function has(flags, flag)
  return floor(flags / flag) % 2 == 1
end

local changes  -- what change.lua makes, once it is needed

local function decide(mode, group, operations)
  if mode == 0 and group.id > 0 then
    local record, strange_record = record_of(group.id)
    if record and record.fingerprint ~= group.fingerprint then return 'K' end
    if record then return replay(group.id, record) end
    if strange_record then return strange_record end
  end
  if late then return 'L' end
  if mode == 0 then return check(group, operations) end
  changes = changes or change_rules()
  return changes[mode](group, operations)
end

local out, at = {pack('<d', now)}, 1
while at < #groups do
  local mode, flags, count, id, max_wait, keep_for, fingerprint, next_at = read('<BBHHddc8', groups, at)
  local ask
  if has(flags, 64) then ask, next_at = ask_at(groups, next_at) end
  local group = {ask = ask, id = id, max_wait = max_wait, keep = keep_for, fingerprint = fingerprint, force = has(flags, 1),
                 partial = has(flags, 2), dry = has(flags, 4), unless_replayed = has(flags, 8), undo = has(flags, 16),
                 keep_anyway = has(flags, 32),
                 bytes = sub(groups, at, next_at - 1)}
  local operations = {}
  at = next_at
  for i = 1, count do operations[i], at = operation_at(at, mode == 3, ask) end
  local answer, problem = decide(mode, group, operations)
  if answer == 'E' then
    if not wrote then return problem end
    answer = 'F'
  end
  out[#out + 1] = answer
end
if reclaimed > 0 then out[#out + 1] = pack('<d', reclaimed) end
return table.concat(out)
