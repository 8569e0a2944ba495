local head, version, drain, unit, tick, capacity
for i = 1, count do
  local key, limit, cost = read('<HHI4', groups, i * 8 - 7)
  if limit ~= last then
    head, version, drain, unit, tick, capacity = read('<Hxxddddd', limits, limit * 76 + 1)
    last = limit
  end
  local value = found[key]
  local answer, stamp, debt = 'R', now, 0
  if value then
    local h, v, d, u = 0
    if #value == 42 then h, v, d, u, stamp, debt = read('<Hddddd', value) end
    if h == head and v == version and d == drain and u == unit then
      stamp, debt = advance(stamp, debt, drain, tick)
    else
      answer = 'O'
    end
  end
  if answer == 'R' and debt <= (capacity - cost) * unit then
    debt = debt + cost * unit
    local new = pack('<Hddddd', head, version, drain, unit, stamp, debt)
    local refused, problem = store(KEYS[key], new, value, idle_at(stamp, debt, drain, tick))
    if problem then return problem end
    answer = refused or 'A'
    if not refused then found[key] = new end
  end
  n = n + 1
  out[n] = answer
  if answer == 'A' or answer == 'R' then
    n = n + 1
    out[n] = value or '\0'
  end
end
