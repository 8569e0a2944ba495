-- Sliding window: the rules of core/sliding_window.h. `stamp` is the start of the current window, `used` its use,
-- `before` that of the window before. `ticks` is the period in ticks.

local function advance(stamp, used, before, period, own_period)
  if now >= stamp + period then
    if now < stamp + 2 * period then before = used else before = 0 end
    stamp, used = floor(now / period) * period, 0
  end
  if used == 0 and before == 0 then stamp = floor(now / own_period) * own_period end
  return stamp, used, before
end

-- What the window before still weighs, in parts of 1 / ticks.
local function weight_before(stamp, before, tick, ticks)
  if now <= stamp then return before * ticks end
  return before * (ticks - (floor(now / tick) - floor(stamp / tick)))
end

local function fits(stamp, used, before, tick, ticks, capacity, cost)
  local room = capacity - cost - used
  return room >= 0 and weight_before(stamp, before, tick, ticks) <= room * ticks
end

local function idle_at(stamp, used, before, period)
  if used > 0 then return stamp + 2 * period end
  if before > 0 then return stamp + period end
  return 0
end
