-- Strict limits of permits: nothing is granted for one lease after the store may have lost what it granted. A marker beside
-- the buckets says which run of which history wrote it last (run_id, master_replid); it is absent where the store was emptied
-- or never used, and another's after a restart or a promotion. ARGV[5]: number of its key, and for how long the server goes on
-- writing once it is cut off from its replicas (0: nothing takes its place).
local since, max_lag

-- Since when the store has lost nothing; or nil, the answer for who asks, and perhaps an error that ends the call.
local function read_marker()
  local number
  number, max_lag = read('<Hd', ARGV[5])
  local server, history = pcall('INFO', 'server'), pcall('INFO', 'replication')
  if type(server) ~= 'string' or type(history) ~= 'string' then return nil, 'T1' end
  if max_lag > 0 and not string.find(history, 'min_slaves_good_slaves:', 1, true) then return nil, 'T2' end
  local run, past = string.match(server, 'run_id:(%x+)'), string.match(history, 'master_replid:(%x+)')
  if not run or not past then return nil, 'T1' end
  local mine, known, reply = run .. past, found[number]
  if known then
    local answer = strange(known, 14)
    if answer then return nil, answer end
    if #known > 10 and sub(known, 11) == mine then
      local at = read('<d', known, 3)
      if at <= now then return at end
    end
  end
  local value = pack('<BBd', 1, 14, now) .. mine
  if known then
    reply = pcall('SET', KEYS[number], value)
  else
    reply = pcall('SET', KEYS[number], value, 'NX')
    if not reply then return nil, 'X' end
  end
  if not reply.ok then
    if wrote or string.find(reply.err, 'OOM', 1, true) then return nil, 'F' end
    return nil, 'E', reply
  end
  wrote, found[number] = true, value
  return now
end

-- From when each strict limit may grant. What only watches refuses nobody.
local function hold_back(operations)
  for i = 1, #operations do
    local o = operations[i]
    if o.strict and o.limit.finite then
      local answer, problem
      if not since then since, answer, problem = read_marker() end
      if since and max_lag >= o.limit.a then answer = 'T3' end
      if answer and not o.shadow then return answer, problem end
      o.granted_from = now + o.limit.a
      if not answer then o.granted_from = since + o.limit.a end
    end
  end
end
