local head, version, period, capacity
for i = 1, count do
  local key, limit, cost = read('<HHI4', groups, i * 8 - 7)
  if limit ~= last then
    head, version, period, capacity = read('<Hxxddxxxxxxxxxxxxxxxxd', limits, limit * 76 + 1)
    last = limit
  end
  local value = found[key]
  local answer, log, first, sum, at, piece = 'R', value or '', 27, 0, now, '\0'
  if value then
    local h, v, p = 0
    if #value >= 26 and #value % 16 == 10 then h, v, p, sum = read('<Hddd', value) end
    if h == head and v == version and p == period then
      at = log_now(log, sum)
      first, sum = drop_expired(log, first, sum, period, at)
    else
      answer = 'O'
    end
  end
  if answer == 'R' then
    local excess = sum - (capacity - cost)
    local mark, gone = 0, 0
    if excess <= 0 then
      if sum == 0 then at = now end
      local new = pack('<Hddd', head, version, period, sum + cost) .. append(log, first, at, cost)
      local refused, problem = store(KEYS[key], new, value, at + period)
      if problem then return problem end
      answer = refused or 'A'
      if not refused then found[key] = new end
    elseif cost <= capacity then
      mark, gone = run_that_frees(log, first, excess)
    end
    if value then piece = pack('<Hdddddd', head, version, period, mark, gone, newest_of(log, 27), sum) end
  end
  n = n + 1
  out[n] = answer
  if answer == 'A' or answer == 'R' then
    n = n + 1
    out[n] = piece
  end
end
