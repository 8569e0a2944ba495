-- What a group asks for, taken apart: limits, operations, and the buckets they found. In `group` alone.
local byte, sub = string.byte, string.sub
local makers = {[0] = token_bucket_rules, fixed_window_rules, sliding_window_rules, sliding_log_rules}
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

local function limit_of(number)
  local limit = limit_at[number]
  if limit then return limit end
  limit = {}
  local at = number * 76 + 1
  local rate
  limit.head, limit.kind, rate, limit.version, limit.a, limit.b, limit.tick, limit.capacity, limit.previous,
    limit.current, limit.next_edge, limit.end_of_next = read('<HBBddddddddd', limits, at)
  limit.bytes = sub(limits, at, at + 75)
  limit.algorithm = floor(limit.head / 256) % 16
  limit.finite, limit.unlimited = rate == 0, rate == 2
  limit.rule = rule_of(limit.algorithm)
  limit_at[number] = limit
  return limit
end

-- The operation at `at`, and where the next one is. `charged` says that a charge stands with it.
local function operation_at(at, charged)
  local o = {write = false, saturated = false, charged = 0, at = 0, window = 0, debt_before = 0}
  local number, flags
  o.from = at
  o.key, number, o.unit, flags, o.cost, o.name, at = read('<HHBBdc8', groups, at)
  o.limit = limit_of(number)
  o.rule = o.limit.rule
  o.shadow = flags % 2 == 1
  if charged then
    local charge = {}
    charge.at, charge.window, charge.debt_before, charge.cost, charge.version, at = read('<ddddd', groups, at)
    o.charge = charge
  end
  return o, at
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
  local limit, value = o.limit, found[o.key]
  o.stored, o.found = nil, value
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
  local p = {kind = limit.kind, current = limit.current, next_edge = limit.next_edge, end_of_next = limit.end_of_next}
  p.tick = ticks[floor(byte(value, 2) / 16)]
  o.stored = p
  if not p.tick or not o.rule.load(o, value) then return 'X' end
  -- Written under other parameters of the same registration (an override came or went): as a version older.
  o.seen = p.version
  if o.seen == limit.version and o.seen > 0 and (p.head ~= limit.head or p.a ~= limit.a or p.b ~= nil and p.b ~= limit.b) then
    o.seen = o.seen - 1
  end
  return nil
end

local function look_at_all(operations)
  for _, o in ipairs(operations) do
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
  for _, o in ipairs(operations) do
    if o.write then
      local value = o.rule.encode(o, o.limit)
      local answer, problem = store(KEYS[o.key], value, found[o.key], o.rule.idle_at(o, o.limit))
      if answer then return answer, problem end
      found[o.key] = value
    end
  end
end
