-- What is asked about permits by their numbers alone. ARGV: 1 not_after, 2 nothing, 3 the calls: key, verb (0 release,
-- 1 renew, 2 leave the queue, 3 somebody still waits there), number (16), weight (4), fence d, lease d. A place in the queue names its session where a
-- holder has his fence.
local out, n = {pack('<d', now)}, 1
local changed, pending = {}, {}  -- pending: by bucket, the answers that hold only once it is stored

local function gone(b, id)
  local score = call('ZSCORE', b.key, id)
  if score and score + lost + b[L] > now then return 'e' end
  return 'u'
end

local function write(b)
  local refused, problem = keep_bucket(b)
  if problem then return problem end
  if refused then
    for _, place in ipairs(pending[b.number]) do out[place] = refused end
  end
  pending[b.number] = {}
end

-- What is asked of each bucket, so that all its scores are read at once.
local asked = {}
if not late then
  for at = 1, #groups, 39 do
    local key, member = read('<Hxc28', groups, at)
    local members = asked[key]
    if members then members[#members + 1] = member else asked[key] = {member} end
  end
end

local function read_scores(b)
  b.now_at = {}
  local members = asked[b.number]
  for from = 1, #members, 1000 do
    local last = min(from + 999, #members)
    local scores = call('ZMSCORE', b.key, unpack(members, from, last))
    for i = from, last do b.now_at[members[i]] = tonumber(scores[i - from + 1] or nil) or false end
  end
end

-- The score under which the member stands, as of this call.
local function score_of(b, member)
  local score = b.now_at[member]
  if score == nil then
    score = tonumber(call('ZSCORE', b.key, member) or nil) or false
    b.now_at[member] = score
  end
  return score
end

local verbs = {}
verbs[0] = function(b, member)
  local score = score_of(b, member)
  if not score or score < 1 or score > far then return gone(b, sub(member, 1, 16)) end
  if score <= now then return 'e' end
  b.now_at[member] = false
  b[U] = max(0, b[U] - weight_of(member))
  b.exact, b.freed = false, true
  b.drop[#b.drop + 1] = member
  return 'r'
end
verbs[1] = function(b, member, lease)
  local score = score_of(b, member)
  if not score or score < 1 or score > far then return gone(b, sub(member, 1, 16)) end
  if score <= now then return 'e' end
  local expiry = max(score, now + lease_under(b[L], lease))
  b.now_at[member] = expiry
  -- Taken out and put in again: that goes where there is no memory left, and without it a permit would be lost.
  b.drop[#b.drop + 1] = member
  b.add[#b.add + 1] = text_of(expiry)
  b.add[#b.add + 1] = member
  b[M], b[E] = max(b[M], expiry), min(b[E], expiry)
  return 'n' .. pack('<d', expiry - now)
end
verbs[2] = function(b, member)
  local place = sub(member, 1, 16) .. sub(member, 21, 28)
  local score = score_of(b, place)
  if not score or score <= far then return 'u' end
  b.now_at[place] = false
  b.live[sub(member, 21, 28)] = true
  local waited = lives(b, place)
  leave(b, place)
  return waited and 'r' or 'u'
end

-- The session lives; told are the nearest expiry and those of its own who would be granted.
verbs[3] = function(b, member)
  if b[W] == 0 then return 'u' end
  local session, own = sub(member, 21, 28), {}
  b.add[#b.add + 1] = -1 - now
  b.add[#b.add + 1] = 'l' .. session
  b.live[session] = true
  first_in_line(b)
  for _, place in ipairs(who_fits(b)) do
    if sub(place, 17, 24) == session then own[#own + 1] = sub(place, 1, 16) end
  end
  return 'h' .. pack('<dB', max(1, b[E] - now), #own) .. table.concat(own)
end

for at = 1, #groups, 39 do
  local key, verb, member, lease = read('<HBc28d', groups, at)
  local answer, problem
  if late then
    answer = 'L'
  else
    local b
    b, answer, problem = bucket_at(key)
    if answer == 'E' then
      if not wrote then return problem end
      answer = 'F'
    end
    if b and not b.present then
      answer = 'u'
    elseif b then
      if not b.now_at then
        pending[key], changed[#changed + 1] = {}, b
        if b[E] <= now then
          count_out(b)
          if #b.drop > 0 then problem = write(b) end  -- they have no score any more
          if problem then return problem end
        end
        read_scores(b)
        b.touched = {}
      end
      -- The same permit twice in a call: what the first did must be known.
      if b.touched[member] then
        problem = write(b)
        if problem then return problem end
      end
      b.touched[member] = true
      if b.lost then
        answer = 'F'
      else
        answer = verbs[verb](b, member, lease)
        pending[key][#pending[key] + 1] = n + 1
      end
    end
  end
  n = n + 1
  out[n] = answer
end
for _, b in ipairs(changed) do
  local problem
  if not b.lost then problem = write(b) end
  if problem then return problem end
end
if reclaimed > 0 then out[#out + 1] = pack('<d', reclaimed) end
return table.concat(out)
