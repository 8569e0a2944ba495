-- What a group brings to hold (core::PermitAsk), and where it ends.
local function ask_at(bytes, from)
  local id, session, lease, queue_for, size, at = read('<c16c8ddH', bytes, from)
  return {id = id, session = session, lease = lease, queue_for = queue_for, holder = sub(bytes, at, at + size - 1)},
         at + size
end

-- What is kept under a request id (rule E10): for each operation its charge as it stands now, and all that the first
-- answer was made of, so that a node makes the same one again although limits have changed since.

-- The record of a key number: nil where none is kept (any more). Then perhaps the answer for its group.
local function record_of(id)
  local value = found[id]
  if not value then return nil end
  local answer = strange(value, 15)
  if answer then return nil, answer end
  if #value < 21 then return nil, 'X' end
  local record = {bytes = value}
  local given
  record.expires, record.fingerprint, given, record.count = read('<xxdc8BH', value)
  record.given = given == 1
  record.rest = 22 + record.count * 49
  if #value < record.rest + 7 then return nil, 'X' end
  if record.expires <= now then return nil end
  record.first_at = read('<d', value, record.rest)
  local flags = byte(value, record.rest + 9) or 0
  if floor(flags / 64) % 2 == 1 and #value >= record.rest + 79 then record.ask = ask_at(value, record.rest + 38) end
  return record
end

local function row_of(name, took, charge)
  local flag = 0
  if took then flag = 1 end
  return pack('<c8Bddddd', name, flag, charge.at, charge.window, charge.debt_before, charge.cost, charge.version)
end

-- Stores bytes under an id until it expires. Whether that went well.
local function keep(id, expires, bytes)
  local reply
  local ms = math.max(1, ceil((expires - now) / 1000))
  if found[id] then
    reply = pcall('SET', KEYS[id], bytes, 'PX', ms)
  else
    reply = pcall('SET', KEYS[id], bytes, 'PX', ms, 'NX')
  end
  if not reply or not reply.ok then return false end
  found[id] = bytes
  return true
end

local function head_of(expires, fingerprint, given, count)
  local flag = 0
  if given then flag = 1 end
  return pack('<BBdc8BH', 1, 15, expires, fingerprint, flag, count)
end

-- The first answer once more. That it was given again is remembered: its charge must then stand.
local function replay(id, record)
  if not record.given then
    keep(id, record.expires,
         head_of(record.expires, record.fingerprint, true, record.count) .. sub(record.bytes, 22))
  end
  return 'P' .. pack('<I4', #record.bytes) .. record.bytes
end

-- Keeps the answer to a group that was charged. `pieces` are what was told of each operation's bucket.
local function keep_answer(group, operations, pieces)
  local parts = {head_of(now + group.keep, group.fingerprint, false, #operations)}
  for i = 1, #operations do
    local o = operations[i]
    local charge = {at = o.at, window = o.window, debt_before = o.debt_before, cost = o.charged, version = o.limit.version}
    if o.charged == 0 then
      -- Asked for nothing (a budget that is settled later): the place where the rest will be charged.
      charge.at, charge.window, charge.debt_before = now, o.stamp, o.value
    end
    parts[#parts + 1] = row_of(o.name, o.allowed, charge)
  end
  parts[#parts + 1] = pack('<d', now) .. group.bytes
  for i = 1, #operations do
    local o = operations[i]
    parts[#parts + 1] = sub(groups, o.from, o.from + 21) .. o.limit.bytes .. pieces[i]
  end
  return keep(group.id, now + group.keep, table.concat(parts))
end
