-- Fixed window: the rules of core/fixed_window.h. `stamp` is the end of the window that `used` was used in. `kind` 0 is
-- aligned to the epoch, 1 begins with the first request; the others are the calendar's, whose edges the caller brings.

local function end_of_window(at, period, kind, current, next_edge, end_of_next)
  if kind == 0 then return (floor(at / period) + 1) * period end
  if kind == 1 then return at + period end
  if at < current then return current end
  if at < next_edge then return next_edge end
  return end_of_next
end

local function is_open(stamp, used)
  return used > 0 and stamp > now
end

local function idle_at(stamp, used)
  if used == 0 then return 0 end
  return stamp
end
