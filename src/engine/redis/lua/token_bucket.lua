-- Token bucket: the rules of core/token_bucket.h. A debt in units, true at `stamp`; `drain` units drain each tick.

-- The bucket as of now, by the parameters it was stored with. Sums stay below 2^53; a product beyond is more than any
-- debt, exact or not.
local function advance(stamp, debt, drain, tick)
  if now <= stamp then return stamp, debt end
  local elapsed
  if tick == 1 then
    elapsed = now - stamp
  else
    elapsed = floor(now / tick) - floor(stamp / tick)
  end
  debt = debt - drain * elapsed
  if debt < 0 then return now, 0 end
  return now, debt
end

-- The instant at which `ticks` more ticks than at `from` have begun, at most 2^52 us after it.
local function after_ticks(from, ticks, tick)
  if tick == 1 then
    if ticks > 4503599627370496 then return from + 4503599627370496 end
    return from + ticks
  end
  if ticks > floor(4503599627370496 / tick) then return from + 4503599627370496 end
  return math.min((floor(from / tick) + ticks) * tick, from + 4503599627370496)
end

local function idle_at(stamp, debt, drain, tick)
  if debt == 0 then return stamp end
  return after_ticks(stamp, ceil(debt / drain), tick)
end
