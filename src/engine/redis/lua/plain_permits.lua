-- Many requests, each for one permit limit, that neither wait nor name a holder. A group: key, limit, weight, number (16),
-- lease ('<HHI4c16d'). Each bucket is written once, at the end; where that is refused all its grants are.
local count = #groups / 32
if late then return pack('<d', now) .. string.rep('L', count) end

local out, n = {pack('<d', now)}, 1
local head, version, period, capacity, last
local granted = {}  -- by key: places in `out` of what was granted and is not stored yet

local function answer_of(number)
  local b, answer, problem = bucket_at(number)
  if not b then return nil, answer, problem end
  if b[W] > 0 then return nil, 'O' end
  if not b.present and not b.new then
    b[V], b[L], b[N], b.new, b.readable = version, period, capacity, true, readable(number)
  end
  if b[V] ~= version or b[L] ~= period or b[N] ~= capacity then return nil, 'O' end
  if b[E] <= now then count_out(b) end
  return b
end

local function write(b)
  local refused, problem = keep_bucket(b)
  if problem then return problem end
  if refused then
    for _, place in ipairs(granted[b.number] or {}) do out[place], out[place + 1] = refused, '' end
  end
  granted[b.number] = nil
end

for i = 1, count do
  local key, limit, cost, id, lease = read('<HHI4c16d', groups, i * 32 - 31)
  if limit ~= last then
    head, version, period, capacity = read('<Hxxddxxxxxxxxxxxxxxxxd', limits, limit * 76 + 1)
    last = limit
  end
  local b, answer, problem = answer_of(key)
  if answer == 'E' then
    if not wrote then return problem end
    answer = 'F'
  end
  local piece = ''
  if b then
    local found = b.present or #b.add > 0
    if permits_fit(b, capacity, cost) then
      local expiry, fence = now + lease_under(period, lease), max(b[F] + 1, now)
      -- A longer lease than this is known: what is told of the latest must be exact.
      if expiry < b[M] and b[U] > 0 then problem = write(b) end
      if problem then return problem end
      if b.lost then
        answer = 'F'
      else
        local latest = b[M]
        if expiry < latest then latest = latest_of(b) end
        piece, answer = permits_piece(b, head, latest, 0, 0), 'A'
        if not found then piece = '\0' end
        put_holder(b, id, cost, expiry, fence, fence)
        b.exact = false
        granted[key] = granted[key] or {}
        granted[key][#granted[key] + 1] = n + 1
      end
    else
      problem = write(b)
      if problem then return problem end
      answer = 'O'
      if b.present and not b.lost then
        local mark = 0
        if cost <= capacity then mark = permits_freed_at(b, b[U] - (capacity - cost)) end
        piece, answer = permits_piece(b, head, latest_of(b), mark, 0), 'R'
      end
    end
  end
  out[n + 1], out[n + 2] = answer, piece
  n = n + 2
end
for _, b in pairs(buckets) do
  local problem = write(b)
  if problem then return problem end
end
if reclaimed > 0 then out[#out + 1] = pack('<d', reclaimed) end
return table.concat(out)
