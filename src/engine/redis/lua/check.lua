-- A request under several limits, all or nothing: the rules of DecideAll in core/group.cc.

-- What a partial request asks of a limit: the smallest of the costs and of what is there over the unit, at least 1.
local function partial_cost(operations, asker)
  local cost = asker.cost
  for i = 1, #operations do
    local o = operations[i]
    if o.unit == asker.unit and o.cost > 0 and not o.shadow then
      cost = math.min(cost, o.cost)
      if o.limit.finite then cost = math.min(cost, o.rule.available(o, o.limit)) end
    end
  end
  return math.max(cost, 1)
end

local function passes(o, cost, group)
  local limit, rule = o.limit, o.rule
  if not limit.finite then return limit.unlimited end
  if group.force or cost < 0 then return true end
  if cost > limit.capacity then return false end
  if rule.fits(o, limit, cost) then return true end
  if not rule.waits or group.partial or group.max_wait == 0 then return false end
  return rule.fits_at(o, limit, cost) - now <= group.max_wait
end

local function spend(o, cost)
  if cost > 0 then
    o.rule.take(o, o.limit, cost)
  elseif cost < 0 then
    o.rule.give_back(o, o.limit, -cost)
  end
end

-- The first limit whose queue the asker may stand in: nothing else than permits refuses, and all of them only for now.
local function where_to_queue(operations, group)
  if group.dry or not group.ask or group.ask.queue_for <= 0 then return nil end
  local first
  for i = 1, #operations do
    local o = operations[i]
    if not o.shadow and not o.allowed then
      if not o.rule.whole or not o.limit.finite or o.asked > o.limit.capacity then return nil end
      first = first or o
    end
  end
  return first
end

-- What is told of each operation's bucket as it was found. Before anything is spent.
local function pieces_of(operations)
  local pieces = {}
  for i = 1, #operations do
    local o = operations[i]
    if not o.limit.finite then
      pieces[i] = ''
    elseif not o.stored then
      pieces[i] = '\0'
    elseif o.rule.summary then
      pieces[i] = o.rule.summary(o, o.stored, o.limit, o.asked)
    else
      pieces[i] = o.found
    end
    if o.strict and o.limit.finite then pieces[i] = pack('<d', o.granted_from) .. pieces[i] end
  end
  return pieces
end

local function check(group, operations)
  local answer, problem = look_at_all(operations)
  if answer then return answer, problem end
  for i = 1, #operations do
    local o = operations[i]
    if is_stale(o) then return 'S' end
  end
  for i = 1, #operations do
    local o = operations[i]
    if o.limit.finite and is_outside(o.limit) then return 'C' end
  end
  answer, problem = hold_back(operations)
  if answer then return answer, problem end
  for i = 1, #operations do
    local o = operations[i]
    if o.limit.finite then open(o) end
  end
  local allowed = not group.dry
  for i = 1, #operations do
    local o = operations[i]
    o.asked = o.cost
    if group.partial and not group.force and o.cost > 0 and not o.rule.whole then o.asked = partial_cost(operations, o) end
    o.allowed = passes(o, o.asked, group)
    if not o.allowed and not o.shadow then allowed = false end
  end
  local pieces = pieces_of(operations)
  local charged = false
  local line = not allowed and where_to_queue(operations, group) or nil
  for i = 1, #operations do
    local o = operations[i]
    if o.rule.queue and o.limit.finite then o.rule.queue(o, o == line, group.dry) end
    if allowed and o.allowed and o.limit.finite then
      spend(o, o.asked)
      if o.charged < 0 and o.rule.summary_of_refund then pieces[i] = o.rule.summary_of_refund(o, pieces[i]) end
      charged = charged or o.charged ~= 0
    end
  end
  answer, problem = store_all(operations)
  if answer then return answer, problem end
  answer = 'R'
  if allowed then answer = 'A' end
  local keeps = allowed and group.id > 0 and (charged or group.keep_anyway)
  if keeps and not keep_answer(group, operations, pieces) then answer = 'a' end
  return answer .. table.concat(pieces)
end
