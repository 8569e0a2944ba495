local rule = {whole = true}  -- never taken in part
local nobody = {id = string.rep('\0', 16), session = string.rep('\0', 8), lease = 0, queue_for = 0, holder = ''}

-- Where the asker stands in the queue.
local function look_at_queue(o, b)
  o.waits, o.overtakes, o.place = false, false, false
  if b[W] == 0 then return end
  local ask = o.ask or nobody
  o.place = ask.id .. ask.session
  if o.ask then b.live[ask.session] = true end
  if o.ask and call('ZSCORE', b.key, o.place) then
    o.waits = lives(b, o.place) ~= nil
    if not o.waits then leave(b, o.place) end
  end
  local first = first_in_line(b)
  o.overtakes = first ~= nil and first ~= o.place
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
  return permits_fit(o.bucket, limit.capacity, cost) and (cost == 0 or (not o.overtakes and now >= o.granted_from))
end

function rule.available(o, limit)
  return max(limit.capacity - o.bucket[U], 0)
end

function rule.take(o, limit, cost)
  local expiry = now + lease_under(limit.a, (o.ask or nobody).lease)
  o.at, o.window, o.debt_before, o.charged = now, max(o.bucket[F] + 1, now), expiry, cost
  o.grant, o.write = true, true
  return false
end

function rule.give_back() end

-- Who stands in a queue keeps his place in it, and nobody stands in two.
function rule.queue(o, here, dry)
  if here and not o.waits and o.bucket[W] >= most_waiters then return end
  if here then
    o.enqueue, o.write = true, true
  elseif o.waits and not dry then
    o.leave, o.write = true, true
  end
end

local function member_of(o, weight, fence)
  return (o.ask or nobody).id .. pack('<I4d', weight, fence)
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

-- A permit is given back by its number; one that was granted elsewhere is counted even beyond the capacity.
function rule.adjust(o, p, charge, delta)
  local b = o.bucket
  if delta == 0 or (delta > 0 and charge.debt_before <= now) then return false end  -- it may have been renewed
  local own = charge.cost > 0 and member_of(o, charge.cost, charge.window)
  local score = own and b.present and tonumber(call('ZSCORE', b.key, own) or nil)
  local held = score and score > now and score <= far
  if delta < 0 then
    if not held then return false end
    b[U] = max(0, b[U] - charge.cost)
    b.drop[#b.drop + 1] = own
    b.exact, b.freed, o.write = false, true, true
    return false
  end
  local weight, known = charge.cost + delta, false
  if b.present then
    known = tonumber(call('ZSCORE', b.key, member_of(o, weight, charge.window)) or nil)
    known = known and known > now and known <= far
  end
  if known then return false end  -- told for the second time
  o.write = true
  if held then
    b[U] = max(0, b[U] - charge.cost)
    b.drop[#b.drop + 1] = own
  end
  local ask = o.ask or nobody
  put_holder(b, ask.id, weight, charge.debt_before, charge.window, max(b[F], charge.window))
  if ask.holder ~= '' then add_name(b, ask) end
  return false
end

-- His word that he is there, for as long as he says; and a place at the tail where he has none.
local function stand_in_line(o, b, ask)
  b.add[#b.add + 1] = -1 - now
  b.add[#b.add + 1] = 'l' .. ask.session
  b.waits_until = min(now + ask.queue_for, far - 1)
  b.add[#b.add + 1] = -1 - b.waits_until
  b.add[#b.add + 1] = 'u' .. ask.id
  b.add[#b.add + 1] = -1 - o.asked
  b.add[#b.add + 1] = 'g' .. ask.id
  if o.waits then return end
  local last = call('ZREVRANGEBYSCORE', b.key, '+inf', far + 1, 'WITHSCORES', 'LIMIT', 0, 1)
  b[W] = b[W] + 1
  b.add[#b.add + 1] = tonumber(last[2] or far) + 1
  b.add[#b.add + 1] = ask.id .. ask.session
end

function rule.keep(o)
  local b, limit, ask = o.bucket, o.limit, o.ask or nobody
  if o.write then
    if b[V] <= limit.version then
      if b[N] < limit.b then b.freed = true end
      if b[V] ~= limit.version or b[N] ~= limit.b then b.newer = true end
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
    leave(b, o.place)
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
  if not o.waits and b[W] >= most_waiters then flags = flags + 4 end
  return pack('<HdddddddB', limit.head, min(p.version, limit.version), p.a, p.b, latest_of(b), b[U], b[F], mark, flags)
end

-- The numbers stay, so that no fence comes twice, and the queue, whose first are told.
function rule.reset(o)
  local b = o.bucket
  for _, range in ipairs({{-lost, -far - 2}, {0, far}}) do
    local reply = pcall('ZREMRANGEBYSCORE', b.key, range[1], range[2])
    if type(reply) == 'table' then return 'E', reply end
    wrote = true
  end
  b[U], b[E], b.add, b.freed = 0, far, {}, true  -- who was found dead in the queue still leaves it
  return keep_bucket(b)
end

-- Who holds, in order of expiry, at most a thousand: the piece of a peek, then weight held by the sum that is kept and by
-- the holders, how many wait, whether there are more, count, and of each number, weight, fence, expiry, name. Or, where a
-- lease below 0 is asked for, nobody, but the sum is set right (a holder was deleted by hand).
function rule.holders(o)
  local b, only, names, out = o.bucket, (o.ask or nobody).holder, {}, {'', ''}
  if not b.present then return 'H\0' .. pack('<dddBH', 0, 0, 0, 0, 0) end
  local sums_only = (o.ask or nobody).lease < 0
  while b[E] <= now do count_some_out(b) end
  local answer, problem = keep_bucket(b)
  if answer then return answer, problem end
  local waiting = b[W]
  if waiting > 0 and waiting <= 1000 then
    waiting = 0
    for _, place in ipairs(call('ZRANGEBYSCORE', b.key, far + 1, '+inf')) do
      if lives(b, place) then waiting = waiting + 1 end
    end
  end
  for _, name in ipairs(call('ZRANGEBYSCORE', b.key, 0, 0)) do names[sub(name, 2, 17)] = sub(name, 18) end
  local used, count, more, from, full = 0, 0, 0, 0, false
  repeat
    local list = call('ZRANGEBYSCORE', b.key, '(' .. string.format('%.0f', now), far, 'WITHSCORES', 'LIMIT', from, 1000)
    for i = 1, #list, 2 do
      local member, name = list[i], names[sub(list[i], 1, 16)] or ''
      used = used + weight_of(member)
      if #member == 28 and not sums_only and (only == '' or only == name) then
        if count == 1000 then
          more = 1
        else
          count = count + 1
          out[#out + 1] = member .. pack('<dH', list[i + 1], #name) .. name
        end
      end
    end
    from = from + 1000
    full = #list == 2000
  until not full or from == 10000
  if full then used, more = b[U], 1 end  -- too many to go through them all: the sum is believed
  out[1] = 'H' .. rule.summary(o, o.stored, o.limit, 0)
  out[2] = pack('<dddBH', b[U], used, waiting, more, count)
  if sums_only and b[U] ~= used then
    b.freed = used < b[U]
    b[U] = used
    answer, problem = keep_bucket(b)
    if answer then return answer, problem end
  end
  return table.concat(out)
end

return rule
