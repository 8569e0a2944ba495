-- Changes of what was charged before: settle, undo, report, and the end of all use. The rules of AdjustCharge in
-- core/group.cc.

-- Changes a charge under the parameters that the bucket was charged with, then takes it to the limit's.
local function amend_charge(o, charge, delta)
  local limit, rule, p = o.limit, o.rule, o.stored
  open(o)
  if p and not rule.keeps_instants and not rule.same(p, limit) then
    local migrates = o.write
    o.write = false
    rule.open(o, p, p)
    local held = rule.adjust(o, p, charge, delta)
    o.saturated = rule.convert(o, p, limit) or held
    o.write = o.write or migrates
  else
    local held = rule.adjust(o, limit, charge, delta)
    o.saturated = held or o.saturated
  end
end

-- Never more comes back than the charge took, and nothing from a bucket written under a newer version than it.
local function adjust(o, charge, delta)
  o.charge = charge
  if not o.limit.finite then return end
  o.left_alone = is_stale(o) and not (o.rule.whole and delta < 0)  -- a permit is given back whatever its limit became
  if o.left_alone then return end
  local change = math.max(delta, -math.max(charge.cost, 0))
  local kept = change
  if o.stored and o.seen > charge.version and not o.rule.whole then kept = math.max(change, 0) end
  amend_charge(o, charge, kept)
  o.charge = {at = charge.at, window = charge.window, debt_before = charge.debt_before, cost = charge.cost + change,
              version = charge.version}
end

-- What is told of changed operations: how it went, the charge as it stands, the bucket as it is now.
local function changes_of(operations)
  local out = {'D'}
  for i = 1, #operations do
    local o = operations[i]
    local flags, limit, charge = 0, o.limit, o.charge
    if o.skipped then flags = 1 end
    if o.left_alone then flags = flags + 2 end
    if o.saturated then flags = flags + 4 end
    out[#out + 1] =
      pack('<Bddddd', flags, charge.at, charge.window, charge.debt_before, charge.cost, charge.version)
    if not limit.finite then
      out[#out + 1] = ''
    elseif o.left_alone then
      out[#out + 1] = '\0'
    elseif o.rule.summary then
      out[#out + 1] = o.rule.summary(o, limit, limit, 0)
    else
      out[#out + 1] = o.rule.encode(o, limit)
    end
  end
  return table.concat(out)
end

-- The caller knows older parameters than a bucket (which an undo may), or not the calendar windows of now.
local function out_of_date(operations, is_undo)
  for i = 1, #operations do
    local o = operations[i]
    if is_stale(o) and not is_undo then return 'S' end
    if is_outside(o.limit) then return 'C' end
  end
end

-- The costs are what was really used; the charges are those kept under the id.
local function settle(group, operations)
  local record, strange_record = record_of(group.id)
  if not record then return strange_record or 'U' end
  local rows, known = {}, false
  for i = 1, record.count do
    local charge = {}
    local name, took
    name, took, charge.at, charge.window, charge.debt_before, charge.cost, charge.version =
      read('<c8Bddddd', record.bytes, 22 + (i - 1) * 49)
    rows[i] = {name = name, took = took == 1, charge = charge}
    if not rows[name] then rows[name] = rows[i] end
  end
  for i = 1, #operations do known = known or rows[operations[i].name] end
  if not known then return 'U' end
  local answer, problem = look_at_all(operations)
  if answer then return answer, problem end
  answer = out_of_date(operations, false)
  if answer then return answer end
  for i = 1, #operations do
    local o = operations[i]
    local row = rows[o.name]
    o.skipped, o.ask = not row, record.ask
    -- A shadow limit that had no room took no part.
    if row and row.took and o.rule.whole then
      adjust(o, row.charge, 0)  -- a permit is given back by its own number alone
    elseif row and row.took then
      adjust(o, row.charge, o.cost - row.charge.cost)
      row.charge = o.charge
    else
      adjust(o, {at = 0, window = 0, debt_before = 0, cost = 0, version = 0}, 0)
    end
  end
  answer, problem = store_all(operations)
  if answer then return answer, problem end
  local parts = {sub(record.bytes, 1, 21)}
  for i, row in ipairs(rows) do parts[i + 1] = row_of(row.name, row.took, row.charge) end
  parts[#parts + 1] = sub(record.bytes, record.rest)
  if not keep(group.id, record.expires, table.concat(parts)) then return 'F' end
  return changes_of(operations)
end

-- The operations bring their charges. An undo that meets a newer version is dropped; another change is told. With an id
-- it is the undo of what was charged under it: once, and the id goes.
local function adjust_all(group, operations)
  if group.id > 0 then
    local record, strange_record = record_of(group.id)
    if not record then return strange_record or 'U' end
    if group.keep ~= 0 and record.first_at ~= group.keep then return 'U' end
    if group.unless_replayed and record.given then return 'U' end
  end
  local answer, problem = look_at_all(operations)
  if answer then return answer, problem end
  answer = out_of_date(operations, group.undo)
  if answer then return answer end
  for i = 1, #operations do adjust(operations[i], operations[i].charge, operations[i].cost) end
  answer, problem = store_all(operations)
  if answer then return answer, problem end
  if group.id > 0 then
    pcall('DEL', KEYS[group.id])
    found[group.id] = false
  end
  return changes_of(operations)
end

local function reset(_, operations)
  local answer, problem = look_at_all(operations)
  if answer then return answer, problem end
  for i = 1, #operations do
    local o = operations[i]
    if o.rule.reset and o.limit.finite then
      if o.found then
        answer, problem = o.rule.reset(o)
        if answer then return answer, problem end
      end
    elseif o.found then
      local reply = pcall('DEL', KEYS[o.key])
      if type(reply) == 'table' then return 'E', reply end
      wrote = true
      found[o.key] = false
    end
  end
  return 'D'
end

-- Who holds the bucket of the one operation.
local function holders(_, operations)
  local o = operations[1]
  if not o or not o.rule.holders or not o.limit.finite then return 'X' end
  local answer, problem = look(o)
  if answer then return answer, problem end
  return o.rule.holders(o)
end

return {settle, reset, adjust_all, holders}
