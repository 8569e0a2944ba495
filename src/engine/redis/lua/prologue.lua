-- What every script begins with. KEYS: the buckets (and ids), each once. ARGV: 1 not_after, 2 the limits, 3 the groups.
-- README.md has the tables of all bytes.
local call, pcall = redis.call, redis.pcall
local read, pack = struct.unpack, struct.pack
local floor, ceil = math.floor, math.ceil
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local late = now > read('<d', ARGV[1])
local limits, groups = ARGV[2], ARGV[3]
local wrote = false
local reclaimed = 0  -- permits whose lease had run out, counted out by this call

-- Stores a bucket until it is idle, in milliseconds rounded up, but at least two seconds, so that it remembers its
-- version until every node has heard of that (rule E6), and at most 285 years. Where no string was found nothing may be:
-- what is there then is not ours. Returns nil when stored, else the answer of its group and perhaps an error that ends
-- the call.
local function store(key, value, found, idle_at)
  local ms = ceil((idle_at - now) / 1000)
  if ms < 2000 then ms = 2000 end
  if not (ms <= 9007199254740) then ms = 9007199254740 end
  local reply
  if found then
    reply = pcall('SET', key, value, 'PX', ms)
  else
    reply = pcall('SET', key, value, 'PX', ms, 'NX')
    if not reply then return 'X' end
  end
  if reply.ok then
    wrote = true
    return nil
  end
  -- No memory is an answer. What else refuses a write refuses all of them: the call did nothing and says why.
  if string.find(reply.err, 'OOM', 1, true) or wrote then return 'F' end
  return 'E', reply
end
