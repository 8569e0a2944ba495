local rule = {}

function rule.load(o, value)
  if #value ~= 42 then return false end
  local p = o.stored
  p.head, p.version, p.a, p.stamp, p.value, p.before = read('<Hddddd', value)
  return true
end

function rule.encode(o, limit)
  return pack('<Hddddd', limit.head, limit.version, limit.a, o.stamp, o.value, o.before)
end

function rule.open(o, p, scene)
  local stamp, used, before = 0, 0, 0
  if o.stored then stamp, used, before = p.stamp, p.value, p.before end
  o.stamp, o.value, o.before = advance(stamp, used, before, p.a, scene.a)
end

function rule.same(p, limit)
  return p.a == limit.a and p.tick == limit.tick
end

-- One window's use with `delta` more, within 0 and what keeps products below 2^52; and whether it was held there.
local function change(p, use, delta)
  local most = floor(4503599627370496 / (p.a / p.tick))
  return math.max(0, math.min(use + delta, most)), delta > most - use
end

function rule.convert(o, p, limit)
  if p.a ~= limit.a then
    local ticks = p.a / p.tick
    local weight = ceil(weight_before(o.stamp, o.before, p.tick, ticks) / ticks)
    o.stamp = floor(math.max(now, o.stamp) / limit.a) * limit.a
    o.value, o.before = o.value + weight, 0
  end
  local held, held_before
  o.value, held = change(limit, o.value, 0)
  o.before, held_before = change(limit, o.before, 0)
  return held or held_before
end

function rule.fits(o, limit, cost)
  return fits(o.stamp, o.value, o.before, limit.tick, limit.a / limit.tick, limit.capacity, cost)
end

function rule.available(o, limit)
  local ticks = limit.a / limit.tick
  local weight = ceil(weight_before(o.stamp, o.before, limit.tick, ticks) / ticks)
  return math.max(limit.capacity - o.value - weight, 0)
end

function rule.take(o, limit, cost)
  o.at, o.window, o.charged, o.write = math.max(now, o.stamp), o.stamp, cost, true
  local held
  o.value, held = change(limit, o.value, cost)
  return held
end

function rule.give_back(o, limit, cost)
  local back = math.min(cost, o.value)
  if back == 0 then return end
  o.at, o.window, o.charged, o.write = math.max(now, o.stamp), o.stamp, -back, true
  o.value = o.value - back
end

function rule.adjust(o, p, charge, delta)
  local field
  if charge.window == o.stamp then
    field = 'value'
  elseif charge.window + p.a == o.stamp then
    field = 'before'
  else
    return false
  end
  local use, held = change(p, o[field], delta)
  if use ~= o[field] then
    o[field] = use
    o.write = true
  end
  return held
end

function rule.idle_at(o, limit)
  return idle_at(o.stamp, o.value, o.before, limit.a)
end

return rule
