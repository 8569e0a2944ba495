-- Sliding log: the rules of core/sliding_log.h. A log is a string of runs ('<dd': instant, weight; the oldest first)
-- behind the 26 bytes of its head. It is cut and joined, never taken apart; runs before byte `first` are dropped.
local sub = string.sub

-- The log's own now: never before its newest run.
local function log_now(log, sum)
  if sum == 0 then return now end
  return math.max(now, (read('<d', log, #log - 15)))
end

-- Without the runs that are `period` old or older at `at`.
local function drop_expired(log, first, sum, period, at)
  while first < #log do
    local instant, weight = read('<dd', log, first)
    if instant + period > at then break end
    sum = sum - weight
    first = first + 16
  end
  return first, sum
end

-- The run by whose end `excess` is gone, and what is gone with it.
local function run_that_frees(log, first, excess)
  local gone = 0
  while first < #log do
    local instant, weight = read('<dd', log, first)
    gone = gone + weight
    if gone >= excess then return instant, gone end
    first = first + 16
  end
  return 0, 0
end

-- The runs kept and one more; it joins the newest when that is of the same instant, or the 10,000th.
local function append(log, first, at, weight)
  local last = #log - 15
  if last >= first then
    local instant, joined = read('<dd', log, last)
    if instant == at or last - first >= 159984 then
      return sub(log, first, last - 1) .. pack('<dd', at, joined + weight)
    end
  end
  return sub(log, first) .. pack('<dd', at, weight)
end

local function newest_of(log, first)
  if first > #log then return 0 end
  return (read('<d', log, #log - 15))
end
