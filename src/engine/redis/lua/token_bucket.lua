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

-- From here on the bucket is the same as an absent one. Of debt by force this may be later than core says: no matter.
local function idle_at(stamp, debt, drain, tick)
  if debt == 0 then return stamp end
  return (floor(stamp / tick) + ceil(debt / drain)) * tick
end
