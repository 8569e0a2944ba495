-- Permits: the rules of core/permits.h. A bucket is one sorted set, so that it moves, expires and is lost as a whole. The
-- score says what a member is (README.md): its numbers, holders' names, holders, who waits. A bucket is read once a call
-- and written once a group (`group`) or a call.
local byte, sub = string.byte, string.sub
local max, min = math.max, math.min
local far, lost = 4503599627370496, 9007199254740992  -- 2^52, 2^53
local most_waiters = 65536
-- Version, lease, capacity; weight of who was not counted out, last fence; at least the latest expiry, at most the nearest;
-- when the key expires; how many wait.
local V, L, N, U, F, M, E, T, W = 1, 2, 3, 4, 5, 6, 7, 8, 9
local buckets = {}

-- Of a holder; what is no holder of ours weighs nothing.
local function weight_of(member)
  if #member ~= 28 then return 0 end
  return (read('<I4', member, 17))
end

-- Made with all its fields at once: a table that grows is made anew for every doubling. `member` has its numbers in the set.
local function new_bucket(number, member, v, l, n, u, f, m, e, t, w)
  return {v, l, n, u, f, m, e, t, w,
          number = number, key = KEYS[number], present = member ~= nil, member = member, readable = '', drop = {}, add = {},
          due = 0, live = {}, gone = {}, marks = false, waits_until = 0, exact = false, forget = false, freed = false,
          newer = false, lost = false, new = false, now_at = false, touched = false}
end

-- A score in a command is a text. Made of the same number over and over it is made once: Redis does it by 17 digits, which
-- costs more than all else that is done for a holder.
local last_number, last_text
local function text_of(number)
  if number ~= last_number then last_number, last_text = number, string.format('%.0f', number) end
  return last_text
end

-- The bucket whose numbers the one of these members has; or nil, and the answer for who asks.
local function bucket_in(members, number)
  local member, layout = members[1], byte(members[1], 2)
  if #members > 1 or byte(member) ~= 35 then return nil, 'X' end
  if layout ~= 1 then return nil, layout and layout > 1 and layout < 32 and 'N' or 'X' end
  if #member < 74 then return nil, 'X' end
  local v, l, n, u, f, m, e, t, w = read('<ddddddddd', member, 3)
  local fractions = v % 1 + l % 1 + n % 1 + u % 1 + f % 1 + m % 1 + e % 1 + t % 1 + w % 1  -- no number where one is none
  if l < 1 or min(v, n, u, f, m, e, t, w) < 0 or max(v, l, n, u, f, m, e, t, w) > far or fractions ~= 0 then
    return nil, 'X'
  end
  local b = new_bucket(number, member, v, l, n, u, f, m, e, t, w)
  b.readable = sub(member, 75)
  return b
end

-- The bucket under a key number; or nil, the answer for who asks, and perhaps an error that ends the call.
local function bucket_at(number)
  local b = buckets[number]
  if b then return b end
  local key, answer = KEYS[number], nil
  local members = pcall('ZRANGEBYSCORE', key, '-inf', '-inf', 'LIMIT', '0', '2')
  if members.err then
    if wrote or string.find(members.err, 'WRONGTYPE', 1, true) then return nil, 'X' end
    return nil, 'E', members
  end
  if members[1] then
    b, answer = bucket_in(members, number)
    if answer then return nil, answer end
  elseif call('ZCARD', key) > 0 then
    return nil, 'X'
  else
    b = new_bucket(number, nil, 0, 0, 0, 0, 0, 0, far, 0, 0)
  end
  buckets[number] = b
  return b
end

-- Removes or adds in slices that Lua can hand over at once. An error, or nil.
local function change_members(command, key, list)
  for from = 1, #list, 2000 do
    local reply = pcall(command, key, unpack(list, from, min(from + 1999, #list)))
    if type(reply) == 'table' and reply.err then return reply end
    wrote = true
  end
end

-- The weight for which somebody still waits in this place (number, session), or nothing: his own time is over, or his
-- session has not given a word within the last three seconds.
local function lives(b, place)
  local session = sub(place, 17, 24)
  local live = b.live[session]
  if live == nil then
    local score = call('ZSCORE', b.key, 'l' .. session)
    live = score and now + 1 + score < 3000000
    b.live[session] = live
  end
  if not live then return nil end
  local id = sub(place, 1, 16)
  local said = call('ZMSCORE', b.key, 'u' .. id, 'g' .. id)
  if said[1] and said[2] and -1 - said[1] > now then return -1 - said[2] end
end

-- Takes a place out of the queue.
local function leave(b, place)
  if b.gone[place] then return end
  b.gone[place] = true
  b[W], b.freed = max(0, b[W] - 1), true
  b.drop[#b.drop + 1] = place
  b.drop[#b.drop + 1] = 'u' .. sub(place, 1, 16)
  b.drop[#b.drop + 1] = 'g' .. sub(place, 1, 16)
end

-- Those who wait and fit at once, the first first: at most 16, found among the first 128.
local function who_fits(b)
  local room, fit = b[N] - b[U], {}
  for from = 0, 112, 16 do
    if room <= 0 then break end
    local line = call('ZRANGEBYSCORE', b.key, far + 1, '+inf', 'LIMIT', from, 16)
    for i = 1, #line do
      local weight = lives(b, line[i])
      if weight then
        room = room - weight
        if room < 0 or #fit == 16 then return fit end
        fit[#fit + 1] = line[i]
      end
    end
    if #line < 16 then break end
  end
  return fit
end

-- The dead who stand at the head of the queue leave it. Whoever is the first then.
local function first_in_line(b)
  local gone, most = 0, 1  -- most often the first lives
  while b[W] > 0 do
    local line = call('ZRANGEBYSCORE', b.key, far + 1, '+inf', 'LIMIT', gone, most)
    for i = 1, #line do
      if gone == 4096 or lives(b, line[i]) then return line[i] end  -- the rest of the dead leave at the next calls
      gone = gone + 1
      leave(b, line[i])
    end
    if #line < most then b[W] = 0 end
    most = 128
  end
end

-- Tells the first who wait, as far as they fit, that they may ask again.
local function wake(b)
  b.freed = false
  local first, ids = who_fits(b), {}
  for i = 1, #first do
    ids[i] = string.gsub(sub(first[i], 1, 16), '.', function(c) return string.format('%02x', byte(c)) end)
  end
  local prefix = string.match(b.key, '^(.*){%w+}p:%x+$')
  if #ids > 0 and prefix then pcall('PUBLISH', prefix .. 'hints', 'permits ' .. table.concat(ids, ' ')) end
end

-- What is taken away goes first: that needs no memory, and where it went the rest goes too. The numbers as they were go last, so
-- that the set is never empty and keeps its time to live. An error, or nil.
local function change_set(b)
  local add, old = b.add, {}
  local member = '#\1' .. pack('<ddddddddd', unpack(b, 1, 9)) .. b.readable
  if member ~= b.member then
    old[1] = b.member
    add[#add + 1] = '-inf'
    add[#add + 1] = member
  end
  local problem = change_members('ZREM', b.key, b.drop) or change_members('ZADD', b.key, add)
  problem = problem or change_members('ZREM', b.key, old)
  if not problem then b.member = member end
  return problem
end

-- Stores what has changed. Nil, or an answer and perhaps an error, as store().
local function keep_bucket(b)
  local key = b.key
  -- Until who expired last is forgotten, whoever waits is gone, and the clock has come after all fences.
  local needed = max(b[M] + b[L], b[F] + 1, b.waits_until)
  if b.newer then needed = max(needed, now + 2000000) end  -- until every node has heard of it (rule E6)
  if not b.present and #b.add == 0 then return nil end
  local expires = needed > b[T]
  if expires then b[T] = max(b[M] + 2 * b[L], now + 2000000, needed) end
  local problem = change_set(b)
  if problem then
    buckets[b.number] = nil  -- to be read anew, by who asks next
    b.drop, b.add, b.gone, b.lost = {}, {}, {}, true
    if wrote or string.find(problem.err, 'OOM', 1, true) then return 'F' end
    return 'E', problem
  end
  if expires then call('PEXPIRE', key, ceil((b[T] - now) / 1000)) end
  b.present, b.drop, b.add, b.due, b.marks, b.gone, b.newer = true, {}, {}, 0, false, {}, false
  if b.forget then
    b.forget = false
    call('ZREMRANGEBYSCORE', key, -lost, now - b[L] - lost)
  end
  if b[W] > 0 and b.freed then wake(b) end
end

-- Counts holders out whose lease has run out, at most 256; they are known for one more lease.
local function count_some_out(b)
  local due = call('ZRANGEBYSCORE', b.key, 1, now, 'WITHSCORES', 'LIMIT', b.due, 256)
  for i = 1, #due, 2 do
    local member, expiry = due[i], tonumber(due[i + 1])
    b.drop[#b.drop + 1] = member
    if #member == 28 then
      b[U] = b[U] - weight_of(member)
      reclaimed = reclaimed + 1
      if expiry + b[L] > now then
        b.add[#b.add + 1] = expiry - lost
        b.add[#b.add + 1] = sub(member, 1, 16)
      end
    end
  end
  b.due = b.due + #due / 2
  b.forget, b.freed = true, true
  if #due == 512 then return end
  local next_one = call('ZRANGEBYSCORE', b.key, '(' .. string.format('%.0f', now), far, 'WITHSCORES', 'LIMIT', 0, 1)
  b[E] = tonumber(next_one[2] or far)
  -- Whoever was taken away by hand weighs nothing any more once nobody is left.
  if #next_one == 0 or b[U] < 0 then b[U] = 0 end
end

-- The bucket as of now. At most so many a call are counted out that nobody waits long for it; the rest at the next calls,
-- or at once if a request would be refused for it.
local function count_out(b)
  for _ = 1, 4 do
    if b[E] > now then return end
    count_some_out(b)
  end
end

local function permits_fit(b, capacity, cost)
  while b[U] > capacity - cost and b[E] <= now do count_some_out(b) end
  return b[U] <= capacity - cost
end

-- The latest expiry itself, as far as it matters. What is added must have been stored.
local function latest_of(b)
  if b[U] == 0 then return min(b[M], now) end
  if b.exact then return b[M] end
  local last = call('ZREVRANGEBYSCORE', b.key, far, 1, 'WITHSCORES', 'LIMIT', 0, 1)
  b[M] = tonumber(last[2] or 0)
  b.exact = true
  return b[M]
end

-- The expiry by which `excess` is gone; of very many holders an earlier one. Likewise.
local function permits_freed_at(b, excess)
  b.marks = b.marks or {}
  local at = b.marks[excess]
  if at then return at end
  at = 0
  local left = excess
  for from = 0, 960, 64 do
    local list = call('ZRANGEBYSCORE', b.key, '(' .. string.format('%.0f', now), far, 'WITHSCORES', 'LIMIT', from, 64)
    for i = 1, #list, 2 do
      at = tonumber(list[i + 1])
      left = left - weight_of(list[i])
      if left <= 0 then break end
    end
    if left <= 0 or #list < 128 then break end
  end
  b.marks[excess] = at
  return at
end

-- What a node is told of the bucket as it was found. flags: the asker waits 1, others wait before him 2,
-- as many wait as may 4.
local function permits_piece(b, limit_head, latest, mark, flags)
  return pack('<HdddddddB', limit_head, b[V], b[L], b[N], latest, b[U], b[F], mark, flags)
end

-- Puts a holder in: number (16 bytes), weight, expiry, fence; and what is the last fence then.
local function put_holder(b, id, weight, expiry, fence, last)
  b[U], b[F] = b[U] + weight, last
  b[M], b[E] = max(b[M], expiry), min(b[E], expiry)
  b.add[#b.add + 1] = text_of(expiry)
  b.add[#b.add + 1] = id .. pack('<I4d', weight, fence)
end

local function lease_under(limit, asked)
  if asked <= 0 then return limit end
  return min(limit, asked)
end

-- The readable name of a key number, which a new bucket gets.
local function readable(number)
  local names, at = ARGV[4] or '', 1
  while at < #names do
    local key, size, from = read('<HH', names, at)
    if key == number then return sub(names, from, from + size - 1) end
    at = from + size
  end
  return ''
end
