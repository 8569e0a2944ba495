local rule = {waits = true}

-- The instant at which `ticks` more ticks than at `from` have begun, at most 2^52 us after it.
local function after_ticks(from, ticks, tick)
  if ticks > floor(4503599627370496 / tick) then return from + 4503599627370496 end
  return math.min((floor(from / tick) + ticks) * tick, from + 4503599627370496)
end

function rule.load(o, value)
  if #value ~= 42 then return false end
  local p = o.stored
  p.head, p.version, p.a, p.b, p.stamp, p.value = read('<Hddddd', value)
  return true
end

function rule.encode(o, limit)
  return pack('<Hddddd', limit.head, limit.version, limit.a, limit.b, o.stamp, o.value)
end

function rule.open(o, p)
  if o.stored then
    o.stamp, o.value = advance(p.stamp, p.value, p.a, p.tick)
  else
    o.stamp, o.value = now, 0
  end
end

function rule.same(p, limit)
  return p.a == limit.a and p.b == limit.b and p.tick == limit.tick
end

-- The debt with `cost` tokens more, held at the most whole tokens below 2^52; and whether it was held.
local function add_debt(debt, cost, unit)
  local units = cost * unit
  if units <= 4503599627370496 - debt then return debt + units, false end
  return floor(4503599627370496 / unit) * unit, true
end

function rule.convert(o, p, limit)
  local held
  o.value, held = add_debt(0, ceil(o.value / p.b), limit.b)
  return held
end

function rule.fits(o, limit, cost)
  return o.value <= (limit.capacity - cost) * limit.b
end

function rule.fits_at(o, limit, cost)
  local excess = o.value - (limit.capacity - cost) * limit.b
  return after_ticks(o.stamp, ceil(excess / limit.a), limit.tick)
end

function rule.available(o, limit)
  local room = limit.capacity * limit.b - o.value
  if room < limit.b then return 0 end
  return floor(room / limit.b)
end

function rule.take(o, limit, cost)
  o.at, o.debt_before, o.charged, o.write = o.stamp, o.value, cost, true
  local held
  o.value, held = add_debt(o.value, cost, limit.b)
  return held
end

function rule.give_back(o, limit, cost)
  if o.value == 0 then return end
  local back = math.min(cost, ceil(o.value / limit.b))
  o.at, o.debt_before, o.charged, o.write = o.stamp, o.value, -back, true
  o.value = math.max(0, o.value - back * limit.b)
end

-- Gives back only what has not drained away since: of the debt then and the charge, the charge drains last.
function rule.adjust(o, p, charge, delta)
  local held
  if delta > 0 then
    o.write = true
    o.value, held = add_debt(o.value, delta, p.b)
    return held
  end
  local left = add_debt(charge.debt_before, charge.cost, p.b)
  local elapsed = floor(math.max(o.stamp, charge.at) / p.tick) - floor(charge.at / p.tick)
  left = math.max(0, left - p.a * elapsed)
  local back = math.min(left, -delta * p.b, o.value)
  if back > 0 then
    o.value = o.value - back
    o.write = true
  end
  return false
end

function rule.idle_at(o, limit)
  return idle_at(o.stamp, o.value, limit.a, limit.tick)
end

return rule
