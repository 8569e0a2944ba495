-- The runs of an operation stand in o.log from byte o.first on; o.value is their sum.
local rule = {keeps_instants = true}

function rule.load(o, value)
  if #value < 26 or #value % 16 ~= 10 then return false end
  local p = o.stored
  p.head, p.version, p.a, p.value = read('<Hddd', value)
  p.log = value
  return true
end

function rule.encode(o, limit)
  return pack('<Hddd', limit.head, limit.version, limit.a, o.value) .. sub(o.log, o.first)
end

function rule.open(o, p)
  o.log, o.first, o.value = '', 1, 0
  if o.stored then
    o.log, o.first, o.value = p.log, 27, p.value
    o.first, o.value = drop_expired(o.log, o.first, o.value, p.a, log_now(o.log, o.value))
  end
end

function rule.same(p, limit)
  return p.a == limit.a
end

function rule.convert(o, p, limit)
  o.first, o.value = drop_expired(o.log, o.first, o.value, limit.a, log_now(o.log, o.value))
  return false
end

-- What tells a node enough of the runs kept to give every verdict. `cost` is what was judged: of a refusal it needs
-- the run that frees enough.
function rule.summary(o, p, limit, cost)
  local mark, gone, excess = 0, 0, o.value - (limit.capacity - cost)
  if excess > 0 and cost <= limit.capacity then mark, gone = run_that_frees(o.log, o.first, excess) end
  return pack('<Hdddddd', p.head, p.version, p.a, mark, gone, newest_of(o.log, o.first), o.value)
end

-- After a refund: which run was the newest then, and the sum up to it. `before` is the summary before it.
function rule.summary_of_refund(o, before)
  return sub(before, 1, 18) .. pack('<dd', newest_of(o.log, o.first), o.value) .. sub(before, 35)
end

function rule.fits(o, limit, cost)
  return o.value <= limit.capacity - cost
end

function rule.available(o, limit)
  return math.max(limit.capacity - o.value, 0)
end

function rule.take(o, limit, cost)
  o.at, o.charged = log_now(o.log, o.value), cost
  local held = math.min(cost, 4503599627370496 - o.value)
  if held > 0 then
    o.log, o.first = append(o.log, o.first, o.at, held), 1
    o.value = o.value + held
    o.write = true
  end
  return held < cost
end

function rule.give_back(o, limit, cost)
  if o.value == 0 then return end
  o.at = log_now(o.log, o.value)
  local last, left, rest = #o.log, cost, ''
  while left > 0 and last > o.first do
    local at, weight = read('<dd', o.log, last - 15)
    last = last - 16
    local back = math.min(left, weight)
    left = left - back
    if back < weight then rest = pack('<dd', at, weight - back) end
  end
  o.charged, o.write = left - cost, true
  o.value = o.value + o.charged
  o.log, o.first = sub(o.log, o.first, last) .. rest, 1
end

-- The first run that is not before `at`, or the byte behind the last.
local function run_from(o, at)
  local low, high = 0, (#o.log - o.first + 1) / 16
  while low < high do
    local middle = floor((low + high) / 2)
    if read('<d', o.log, o.first + middle * 16) < at then low = middle + 1 else high = middle end
  end
  return o.first + low * 16
end

local function amend(o, run, at, weight, by)
  local text = ''
  if weight + by > 0 then text = pack('<dd', at, weight + by) end
  o.log = sub(o.log, o.first, run - 1) .. text .. sub(o.log, run + 16)
  o.first = 1
  o.value = o.value + by
  o.write = true
end

-- More by force goes into the instant of the charge, or into the next one after it that is kept.
function rule.adjust(o, p, charge, delta)
  if delta > 0 then
    if charge.at + p.a <= log_now(o.log, o.value) then return false end
    local held = math.min(delta, 4503599627370496 - o.value)
    if held == 0 then return true end
    local run = run_from(o, charge.at)
    if run <= #o.log then
      local at, weight = read('<dd', o.log, run)
      amend(o, run, at, weight, held)
    else
      o.first, o.value = drop_expired(o.log, o.first, o.value, p.a, charge.at)
      o.log, o.first = append(o.log, o.first, charge.at, held), 1
      o.value = o.value + held
      o.write = true
    end
    return held < delta
  end
  local run = run_from(o, charge.at)
  if run > #o.log then return false end
  local at, weight = read('<dd', o.log, run)
  local back = math.min(-delta, weight)
  if at == charge.at and back > 0 then amend(o, run, at, weight, -back) end
  return false
end

function rule.idle_at(o, limit)
  if o.value == 0 then return 0 end
  return newest_of(o.log, o.first) + limit.a
end

return rule
