-- Every group in turn. A group: mode, flags, number of operations, id, max_wait, keep, fingerprint; then its operations.

local function has(flags, flag)
  return floor(flags / flag) % 2 == 1
end

local function decide(mode, group, operations)
  if mode == 0 and group.id > 0 then
    local record, strange_record = record_of(group.id)
    if record and record.fingerprint ~= group.fingerprint then return 'K' end
    if record then return replay(group.id, record) end
    if strange_record then return strange_record end
  end
  if late then return 'L' end
  if mode == 0 then return check(group, operations) end
  if mode == 1 then return settle(group, operations) end
  if mode == 2 then return reset(operations) end
  return adjust_all(group, operations)
end

local out, at = {pack('<d', now)}, 1
while at < #groups do
  local group, operations = {bytes = sub(groups, at, at + 29)}, {}
  local mode, flags, count
  mode, flags, count, group.id, group.max_wait, group.keep, group.fingerprint, at = read('<BBHHddc8', groups, at)
  group.force, group.partial, group.dry = has(flags, 1), has(flags, 2), has(flags, 4)
  group.unless_replayed, group.undo = has(flags, 8), has(flags, 16)
  for i = 1, count do operations[i], at = operation_at(at, mode == 3) end
  local answer, problem = decide(mode, group, operations)
  if answer == 'E' then
    if not wrote then return problem end
    answer = 'F'
  end
  out[#out + 1] = answer
end
return table.concat(out)
