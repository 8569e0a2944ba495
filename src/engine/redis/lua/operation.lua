-- What a group asks for, taken apart: limits, operations, and the buckets they found. In `group` alone.
local byte, sub = string.byte, string.sub
local makers = {[0] = token_bucket_rules, fixed_window_rules, sliding_window_rules, sliding_log_rules, permits_rules}
local rules, limit_at, is_absent = {}, {}, {}
local ticks = {[0] = 1, 1000, 1000000}
local found = {}
if #KEYS > 0 then found = call('MGET', unpack(KEYS)) end

local function rule_of(algorithm)
  local rule = rules[algorithm]
  if not rule then
    rule = makers[algorithm]()
    rules[algorithm] = rule
  end
  return rule
end

-- Tables here are made with all their fields at once: one that grows is made anew for every doubling.
local function limit_of(number)
  local limit = limit_at[number]
  if limit then return limit end
  local from = number * 76 + 1
  local head, kind, rate, version, a, b, tick, capacity, previous, current, next_edge, end_of_next =
    read('<HBBddddddddd', limits, from)
  local algorithm = floor(head / 256) % 16
  limit = {head = head, kind = kind, version = version, a = a, b = b, tick = tick, capacity = capacity,
           previous = previous, current = current, next_edge = next_edge, end_of_next = end_of_next,
           algorithm = algorithm, finite = rate == 0, unlimited = rate == 2, rule = rule_of(algorithm),
           bytes = sub(limits, from, from + 75)}
  limit_at[number] = limit
  return limit
end

-- The operation at `from`, and where the next one is. `charged` says that a charge stands with it. `ask` is what the group
-- brings to hold, or nil.
local function operation_at(from, charged, ask)
  local key, number, unit, flags, cost, name, at = read('<HHBBdc8', groups, from)
  local limit, charge = limit_of(number), false
  if charged then
    local instant, window, debt_before, taken, version
    instant, window, debt_before, taken, version, at = read('<ddddd', groups, at)
    charge = {at = instant, window = window, debt_before = debt_before, cost = taken, version = version}
  end
  return {from = from, key = key, limit = limit, rule = limit.rule, unit = unit, shadow = flags % 2 == 1, strict = floor(flags / 2) % 2 == 1,
          granted_from = 0, cost = cost,
          name = name, asked = cost, allowed = false,
          found = false, stored = false, seen = 0,  -- the bucket: its value, that taken apart, its version as it counts
          stamp = 0, value = 0, before = 0, log = '', first = 1, write = false, saturated = false,  -- and as it becomes
          charged = 0, at = 0, window = 0, debt_before = 0,  -- what is charged, as core::Charge
          charge = charge, skipped = false, left_alone = false, ask = ask}, at
end

-- What of a value is ours and known: nil, or the answer for its group.
local function strange(value, shape)
  local layout, own = byte(value, 1, 2)
  if layout == 1 and own and own % 16 == shape then return nil end
  if layout and layout > 1 and layout < 32 then return 'N' end
  return 'X'
end

-- Looks the operation's bucket up. Nil, or the answer for its group, and perhaps an error that ends the call.
local function look(o)
  if o.rule.look then return o.rule.look(o) end
  local limit, value = o.limit, found[o.key]
  o.stored, o.found = false, value
  if not value then
    if is_absent[o.key] then return nil end
    local reply = pcall('GET', KEYS[o.key])
    if reply then
      if not wrote and not string.find(reply.err or '', 'WRONGTYPE', 1, true) then return 'E', reply end
      return 'X'
    end
    is_absent[o.key] = true
    return nil
  end
  local answer = strange(value, limit.algorithm)
  if answer then return answer end
  local p = {head = 0, version = 0, a = 0, b = limit.b, tick = ticks[floor(byte(value, 2) / 16)], stamp = 0, value = 0,
             before = 0, log = '', kind = limit.kind, current = limit.current, next_edge = limit.next_edge,
             end_of_next = limit.end_of_next}
  o.stored = p
  if not p.tick or not o.rule.load(o, value) then return 'X' end
  -- Written under other parameters of the same registration (an override came or went): as a version older.
  o.seen = p.version
  if o.seen == limit.version and o.seen > 0 and (p.head ~= limit.head or p.a ~= limit.a or p.b ~= limit.b) then
    o.seen = o.seen - 1
  end
  return nil
end

local function look_at_all(operations)
  for i = 1, #operations do
    local o = operations[i]
    local answer, problem = look(o)
    if answer then return answer, problem end
  end
end

-- The bucket remembers newer parameters than the operation brings.
local function is_stale(o)
  return o.stored and o.seen > o.limit.version
end

-- The clock is outside the edges of the calendar windows that the caller knows.
local function is_outside(limit)
  return limit.algorithm == 1 and limit.kind > 1 and (now < limit.previous or now >= limit.end_of_next)
end

-- The bucket as of now, under the limit's parameters.
local function open(o)
  local limit, rule, p = o.limit, o.rule, o.stored
  o.write, o.saturated = false, false
  rule.open(o, p or limit, limit)
  if not p or (o.seen == limit.version and o.seen ~= 0) then return end
  if not rule.same(p, limit) then o.saturated = rule.convert(o, p, limit) end
  o.write = o.seen < limit.version
end

-- Stores what is to be written. Nil, or the answer for the group (then nothing was stored), and perhaps an error.
local function store_all(operations)
  for i = 1, #operations do
    local o = operations[i]
    if o.rule.keep and o.limit.finite then
      local answer, problem = o.rule.keep(o)
      if answer then return answer, problem end
    elseif o.write then
      local value = o.rule.encode(o, o.limit)
      local answer, problem = store(KEYS[o.key], value, found[o.key], o.rule.idle_at(o, o.limit))
      if answer then return answer, problem end
      found[o.key] = value
    end
  end
end
