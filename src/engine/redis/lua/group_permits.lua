local rule = {whole = true}  -- never taken in part
local nobody = {id = string.rep('\0', 16), session = string.rep('\0', 8), lease = 0, queue_for = 0, holder = ''}

-- Whether the session has asked within the last three seconds for somebody who waits here.
local function lives(b, session)
  local score = call('ZSCORE', b.key, 'l' .. session)
  return score and now + 1 + score < 3000000
end

-- Where the asker stands in the queue. The dead who stand at its head leave it.
local function look_at_queue(o, b)
  o.waits, o.overtakes, o.place = false, false, false
  if b[W] == 0 then return end
  local ask, gone = o.ask or nobody, 0
  o.place = ask.id .. ask.session .. pack('<I4', math.max(o.cost, 0))
  if o.ask and call('ZSCORE', b.key, o.place) then o.waits = true end
  while true do
    local line = call('ZRANGEBYSCORE', b.key, far + 1, '+inf', 'LIMIT', gone, 16)
    for i = 1, #line do
      local member = line[i]
      if member == o.place or lives(b, sub(member, 17, 24)) then
        o.overtakes = member ~= o.place
        return
      end
      gone = gone + 1
      b[W] = math.max(0, b[W] - 1)
      b.drop[#b.drop + 1] = member
    end
    if #line < 16 then
      b[W] = 0
      return
    end
  end
end

function rule.look(o)
  local b, answer, problem = bucket_at(o.key)
  if not b then return answer, problem end
  o.bucket, o.stored, o.found, o.grant = b, false, b.present, false
  if not b.present then
    o.waits, o.overtakes = false, false
    return nil
  end
  count_out(b)
  look_at_queue(o, b)
  o.stored = {version = b[V], a = b[L], b = b[N]}
  o.seen = b[V]
  if o.seen == o.limit.version and o.seen > 0 and (b[L] ~= o.limit.a or b[N] ~= o.limit.b) then o.seen = o.seen - 1 end
end

function rule.open(o)
  local b = o.bucket
  o.stamp, o.value, o.before = b[M], b[U], b[F]
end

function rule.same() return true end

function rule.fits(o, limit, cost)
  return permits_fit(o.bucket, limit.capacity, cost) and (cost == 0 or not o.overtakes)
end

function rule.available(o, limit)
  return math.max(limit.capacity - o.bucket[U], 0)
end

function rule.take(o, limit, cost)
  local expiry = now + lease_under(limit.a, (o.ask or nobody).lease)
  o.at, o.window, o.debt_before, o.charged = now, math.max(o.bucket[F] + 1, now), expiry, cost
  o.grant, o.write = true, true
  return false
end

function rule.give_back() end

-- Who stands in a queue keeps his place in it, and nobody stands in two.
function rule.queue(o, here, dry)
  if here then
    o.enqueue, o.write = true, true
  elseif o.waits and not dry then
    o.leave, o.write = true, true
  end
end

local function member_of(o, weight, fence)
  return (o.ask or nobody).id .. pack('<I4d', weight, fence)
end

-- A permit is given back by its number; one that was granted elsewhere is counted even beyond the capacity.
function rule.adjust(o, p, charge, delta)
  local b = o.bucket
  if delta == 0 or charge.debt_before <= now then return false end
  local own = charge.cost > 0 and member_of(o, charge.cost, charge.window)
  local score = own and b.present and tonumber(call('ZSCORE', b.key, own) or nil)
  local held = score and score > now and score <= far
  if delta < 0 then
    if not held then return false end
    b[U] = math.max(0, b[U] - charge.cost)
    b.drop[#b.drop + 1] = own
    b.exact, b.freed, o.write = false, true, true
    return false
  end
  o.write = true
  local weight, known = charge.cost + delta, false
  if b.present then
    known = tonumber(call('ZSCORE', b.key, member_of(o, weight, charge.window)) or nil)
    known = known and known > now and known <= far
  end
  if known then return false end  -- told for the second time
  if held then
    b[U] = math.max(0, b[U] - charge.cost)
    b.drop[#b.drop + 1] = own
  end
  put_holder(b, (o.ask or nobody).id, weight, charge.debt_before, charge.window, math.max(b[F], charge.window))
  return false
end

-- Names whose holders are gone leave once they are many.
local function add_name(b, ask)
  b.add[#b.add + 1] = 0
  b.add[#b.add + 1] = 'n' .. ask.id .. ask.holder
  if not b.present then return end
  local names = call('ZCOUNT', b.key, 0, 0)
  if names <= 64 + call('ZCARD', b.key) / 2 then return end
  local held = {}
  for _, member in ipairs(call('ZRANGEBYSCORE', b.key, 1, far)) do held[sub(member, 1, 16)] = true end
  for _, name in ipairs(call('ZRANGEBYSCORE', b.key, 0, 0)) do
    if not held[sub(name, 2, 17)] then b.drop[#b.drop + 1] = name end
  end
end

local function stand_in_line(o, b, ask)
  b.add[#b.add + 1] = -1 - now
  b.add[#b.add + 1] = 'l' .. ask.session
  if o.waits then return end
  local last = call('ZREVRANGEBYSCORE', b.key, '+inf', far + 1, 'WITHSCORES', 'LIMIT', 0, 1)
  b[W] = b[W] + 1
  b.add[#b.add + 1] = tonumber(last[2] or far) + 1
  b.add[#b.add + 1] = ask.id .. ask.session .. pack('<I4', o.asked)
end

function rule.keep(o)
  local b, limit, ask = o.bucket, o.limit, o.ask or nobody
  if o.write then
    if b[V] <= limit.version then
      if b[N] < limit.b then b.freed = true end
      b[V], b[L], b[N] = limit.version, limit.a, limit.b
    end
    if not b.present then b.readable = readable(o.key) end
  end
  if o.grant then
    put_holder(b, ask.id, o.charged, o.debt_before, o.window, o.window)
    b.exact = false
    if ask.holder ~= '' then add_name(b, ask) end
  end
  if o.leave then
    b[W], b.freed = math.max(0, b[W] - 1), true
    b.drop[#b.drop + 1] = o.place
  end
  if o.enqueue then stand_in_line(o, b, ask) end
  return keep_bucket(b)
end

function rule.summary(o, p, limit, cost)
  local b, mark, flags = o.bucket, 0, 0
  if not b.present then return '\0' end
  local excess = b[U] - (limit.capacity - cost)
  if excess > 0 and cost <= limit.capacity then mark = permits_freed_at(b, excess) end
  if o.waits then flags = 1 end
  if o.overtakes then flags = flags + 2 end
  return pack('<HdddddddB', limit.head, math.min(p.version, limit.version), p.a, p.b, latest_of(b), b[U], b[F], mark, flags)
end

-- The numbers stay, so that no fence comes twice. Who waits may ask again: the first are told, and each who is granted
-- wakes the next.
function rule.reset(o)
  local b = o.bucket
  if b[W] > 0 then
    b[U] = 0
    wake(b)
  end
  for _, range in ipairs({{-lost, -far - 2}, {0, '+inf'}}) do
    local reply = pcall('ZREMRANGEBYSCORE', b.key, range[1], range[2])
    if type(reply) == 'table' then return 'E', reply end
    wrote = true
  end
  b[U], b[E], b[W], b.drop, b.add = 0, far, 0, {}, {}
  return keep_bucket(b)
end

-- Who holds, in order of expiry, at most a thousand: the piece of a peek, then weight held, how many wait, whether there
-- are more, count, and of each number, weight, fence, expiry, name. With a lease below 0 nobody is listed, and the sum
-- that is kept is set right by the set (a holder was deleted by hand).
function rule.holders(o)
  local b, only, names, out = o.bucket, (o.ask or nobody).holder, {}, {'', ''}
  local sums_only = (o.ask or nobody).lease < 0
  if not b.present then return 'H\0' .. pack('<ddBH', 0, 0, 0, 0) end
  for _, name in ipairs(call('ZRANGEBYSCORE', b.key, 0, 0)) do names[sub(name, 2, 17)] = sub(name, 18) end
  local used, count, more, from = 0, 0, 0, 0
  repeat
    local list = call('ZRANGEBYSCORE', b.key, '(' .. string.format('%.0f', now), far, 'WITHSCORES', 'LIMIT', from, 1000)
    for i = 1, #list, 2 do
      local member, name = list[i], names[sub(list[i], 1, 16)] or ''
      used = used + weight_of(member)
      if not sums_only and (only == '' or only == name) then
        if count == 1000 then
          more = 1
        else
          count = count + 1
          out[#out + 1] = member .. pack('<dH', list[i + 1], #name) .. name
        end
      end
    end
    from = from + 1000
  until #list < 2000
  while sums_only and b[E] <= now do count_some_out(b) end
  out[1] = 'H' .. rule.summary(o, o.stored, o.limit, 0)
  out[2] = pack('<ddBH', used, b[W], more, count)
  if sums_only then
    if b[U] ~= used then b[U], b.freed = used, true end
    local refused, problem = keep_bucket(b)
    if refused then return refused, problem end
  end
  return table.concat(out)
end

return rule
