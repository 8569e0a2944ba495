local rule = {}

function rule.load(o, value)
  if #value ~= 34 then return false end
  local p = o.stored
  p.head, p.version, p.a, p.stamp, p.value = read('<Hdddd', value)
  return true
end

function rule.encode(o, limit)
  return pack('<Hdddd', limit.head, limit.version, limit.a, o.stamp, o.value)
end

local function window_end(at, scene)
  return end_of_window(at, scene.a, scene.kind, scene.current, scene.next_edge, scene.end_of_next)
end

function rule.open(o, p, scene)
  if o.stored and is_open(p.stamp, p.value) then
    o.stamp, o.value = p.stamp, p.value
  else
    o.stamp, o.value = window_end(now, scene), 0
  end
end

function rule.same(p, limit)
  return p.a == limit.a
end

-- Use moves into the window of now by the new length.
function rule.convert(o, p, limit)
  if o.value > 0 then o.stamp = window_end(math.max(now, o.stamp - p.a), limit) end
  return false
end

function rule.fits(o, limit, cost)
  return o.value <= limit.capacity - cost
end

function rule.available(o, limit)
  return math.max(limit.capacity - o.value, 0)
end

local function add(o, cost)
  local held = math.min(cost, 4503599627370496 - o.value)
  o.value = o.value + held
  o.write = true
  return held < cost
end

local function take_off(o, cost)
  local back = math.min(cost, o.value)
  if back > 0 then
    o.value = o.value - back
    o.write = true
  end
  return back
end

function rule.take(o, limit, cost)
  o.at, o.window, o.charged = now, o.stamp, cost
  return add(o, cost)
end

function rule.give_back(o, limit, cost)
  local back = take_off(o, cost)
  if back > 0 then o.at, o.window, o.charged = now, o.stamp, -back end
end

function rule.adjust(o, p, charge, delta)
  if charge.window <= now then return false end
  if o.value == 0 then o.stamp = charge.window end
  if o.stamp ~= charge.window then return false end
  if delta > 0 then return add(o, delta) end
  take_off(o, -delta)
  return false
end

function rule.idle_at(o)
  return idle_at(o.stamp, o.value)
end

return rule
