-- Many requests, each of one limit, a positive cost and no options. A group: key, limit, cost ('<HHI4').
local count = #groups / 8
if late then return pack('<d', now) .. string.rep('L', count) end

local found
if #KEYS > 1 then
  found = call('MGET', unpack(KEYS))
else
  found = {pcall('GET', KEYS[1])}  -- less than MGET of one
  if type(found[1]) == 'table' then found[1] = false end
end
local out, n = {pack('<d', now), 0, 0}, 1  -- made with the room that one group needs
local last  -- the limit at hand: most calls have few, so its numbers are read when it changes

-- Where a bucket is asked for more than once its first charge is stored at once, which shows whether that can be done,
-- and of the others the last, at the end.
local store_now, pending, idle = store, nil, nil
if count > #KEYS then
  pending, idle = {}, {}
  store = function(key, value, was, idle_at)
    if pending[key] == nil then
      local refused, problem = store_now(key, value, was, idle_at)
      if not refused then pending[key] = false end
      return refused, problem
    end
    pending[key], idle[key] = value, idle_at
  end
end
