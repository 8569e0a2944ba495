local head, version, period, tick, capacity, ticks
for i = 1, count do
  local key, limit, cost = read('<HHI4', groups, i * 8 - 7)
  if limit ~= last then
    head, version, period, tick, capacity = read('<Hxxddxxxxxxxxdd', limits, limit * 76 + 1)
    ticks = period / tick
    last = limit
  end
  local value = found[key]
  local answer, stamp, used, before = 'R', 0, 0, 0
  if value then
    local h, v, p = 0
    if #value == 42 then h, v, p, stamp, used, before = read('<Hddddd', value) end
    if h ~= head or v ~= version or p ~= period then answer = 'O' end
  end
  if answer == 'R' then
    stamp, used, before = advance(stamp, used, before, period, period)
    if fits(stamp, used, before, tick, ticks, capacity, cost) then
      used = used + cost
      local new = pack('<Hddddd', head, version, period, stamp, used, before)
      local refused, problem = store(KEYS[key], new, value, idle_at(stamp, used, before, period))
      if problem then return problem end
      answer = refused or 'A'
      if not refused then found[key] = new end
    end
  end
  n = n + 1
  out[n] = answer
  if answer == 'A' or answer == 'R' then
    n = n + 1
    out[n] = value or '\0'
  end
end
