local head, kind, version, period, capacity, previous, current, next_edge, end_of_next
for i = 1, count do
  local key, limit, cost = read('<HHI4', groups, i * 8 - 7)
  if limit ~= last then
    head, kind, version, period, capacity, previous, current, next_edge, end_of_next =
      read('<HBxddxxxxxxxxxxxxxxxxddddd', limits, limit * 76 + 1)
    last = limit
  end
  local value = found[key]
  local answer, stamp, used = 'R', 0, 0
  if value then
    local h, v, p = 0
    if #value == 34 then h, v, p, stamp, used = read('<Hdddd', value) end
    if h ~= head or v ~= version or p ~= period then answer = 'O' end
  end
  if answer == 'R' then
    if kind > 1 and (now < previous or now >= end_of_next) then
      answer = 'C'
    elseif not is_open(stamp, used) then
      stamp, used = end_of_window(now, period, kind, current, next_edge, end_of_next), 0
    end
  end
  if answer == 'R' and used <= capacity - cost then
    used = used + cost
    local new = pack('<Hdddd', head, version, period, stamp, used)
    local refused, problem = store(KEYS[key], new, value, idle_at(stamp, used))
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
