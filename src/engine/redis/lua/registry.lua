-- The registry: the rule of engine/registry_book.h. A test holds both equal.
-- KEYS: 1 the limits, a hash of `domain/name` to `<version> <revision> <bytes of file> <sha1 of file>\n<file><put>`, and of
-- `born`, `last` and `sum`; 2 the versions, a sorted set of `domain/name` by version. Neither ever expires (E9).
-- ARGV: 1 not_after, 2 what to do, then its arguments. Numbers are decimal digits. The answer's first part is `ok`, or
-- why nothing was done.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {'late'} end

local registry, versions, what = KEYS[1], KEYS[2], ARGV[2]
local most_limits, modulus = 1000000, 4503599627370496
local marks = call('HMGET', registry, 'born', 'last', 'sum')
local born, last, sum = tonumber(marks[1] or 0), tonumber(marks[2] or 0), tonumber(marks[3] or 0)
local wrote = false
-- Beyond 2^52 the next version would not be another one: two contents under one version part the fleet for good.
if not born or not last or not sum or not (last >= 0 and last <= modulus) then
  error('ERR the registry holds marks of somebody else; delete ' .. registry .. ', and the nodes write it again', 0)
end

local function text(number) return string.format('%.0f', number) end

-- nil where there is nothing. What is not ours is an error, or with `lenient` nothing.
local function read(key, lenient)
  local value = call('HGET', registry, key)
  if not value then return nil end
  local version, revision, bytes, digest, at = string.match(value, '^(%d+) (%d+) (%d+) (%x*)\n()')
  if not version and lenient then return nil end
  if not version then error('ERR the registry holds a value of somebody else under ' .. key, 0) end
  bytes = tonumber(bytes)
  return {version = tonumber(version), revision = tonumber(revision), digest = digest,
          file = string.sub(value, at, at + bytes - 1), put = string.sub(value, at + bytes)}
end

local function write(key, entry)
  local digest = ''
  if entry.file ~= '' then digest = redis.sha1hex(entry.file) end
  call('HSET', registry, key, text(entry.version) .. ' ' .. text(entry.revision) .. ' ' .. #entry.file .. ' ' .. digest ..
       '\n' .. entry.file .. entry.put)
end

local function set_version(key, entry, version)
  sum = (sum + (version - entry.version)) % modulus  -- below 2^53 on the way
  last = math.max(last, version)
  entry.version = version
  call('ZADD', versions, text(version), key)
  if born == 0 then born = math.max(now, 1) end
  wrote = true
end

local function give_version(key, entry, above)
  set_version(key, entry, math.max(last + 1, above + 1, now))
end

-- Other nodes are given a hint (engine/redis/hints.h); a user who may not publish gives none, and they ask later.
local function keep_marks()
  if not wrote then return end
  call('HSET', registry, 'born', text(born), 'last', text(last), 'sum', text(sum))
  redis.pcall('PUBLISH', string.gsub(registry, '{registry}$', 'hints'), 'limits ' .. text(last))
end

local function fresh() return {version = 0, revision = 0, file = '', put = ''} end

-- version, revision, put 0 or 1, definition
local function append_in_force(out, entry)
  local put = entry.put ~= ''
  local revision = entry.revision
  if put or entry.file == '' then revision = 0 end
  out[#out + 1] = text(entry.version)
  out[#out + 1] = text(revision)
  out[#out + 1] = put and '1' or '0'
  out[#out + 1] = put and entry.put or entry.file
end

local function load(key, entry, definition, revision)
  if entry.file ~= '' and entry.file == definition then
    entry.revision = math.max(entry.revision, revision)
    return
  end
  if entry.file ~= '' and revision < entry.revision then return end
  entry.file, entry.revision = definition, revision
  if entry.put == '' or entry.version == 0 then give_version(key, entry, 0) end
end

-- Whether `if_match` holds; false with the version that is in force.
local function matches(entry, if_match)
  if if_match == '' then return true end
  if not entry or (entry.file == '' and entry.put == '') then return false, '0' end
  if text(entry.version) ~= if_match then return false, text(entry.version) end
  return true
end

local function full(more)
  return call('ZCARD', versions) + more > most_limits
end

local actions = {}

-- name …: of each version, revision and digest of the file's, put 0 or 1; all empty where there is nothing.
function actions.heads()
  local out = {'ok'}
  for i = 3, #ARGV do
    local entry = read(ARGV[i])
    if entry then
      out[#out + 1] = text(entry.version)
      out[#out + 1] = text(entry.revision)
      out[#out + 1] = entry.digest
      out[#out + 1] = entry.put ~= '' and '1' or '0'
    else
      for _ = 1, 4 do out[#out + 1] = '' end
    end
  end
  return out
end

-- name …: what is in force of each.
function actions.get()
  local out = {'ok'}
  for i = 3, #ARGV do append_in_force(out, read(ARGV[i]) or fresh()) end
  return out
end

-- (name, definition, revision, put, held, above) …: engine/limit_registry.h, Claim. What is in force then.
function actions.claim()
  local entries, more = {}, 0
  for i = 3, #ARGV, 6 do
    local key, definition, revision, held = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 4])
    local entry = entries[key] or read(key)
    if not entry then
      more = more + 1
      entry = fresh()
    elseif held == 0 and revision > 0 and revision == entry.revision and entry.file ~= '' and entry.file ~= definition then
      return {'revision', key, text(revision)}
    end
    entries[key] = entry
  end
  if full(more) then return {'full'} end
  local out = {'ok'}
  for i = 3, #ARGV, 6 do
    local key, definition, revision = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
    local put, held, above = ARGV[i + 3] == '1', tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
    local entry = entries[key]
    if held == 0 then
      load(key, entry, definition, revision)
    elseif held > entry.version then
      if put then
        entry.put = definition
      else
        entry.put, entry.file, entry.revision = '', definition, revision
      end
      set_version(key, entry, held)
    end
    if above > 0 and entry.version <= above then give_version(key, entry, above) end
    write(key, entry)
    append_in_force(out, entry)
  end
  keep_marks()
  return out
end

-- name, definition, if_match
function actions.put()
  local key = ARGV[3]
  local entry = read(key)
  local holds, in_force = matches(entry, ARGV[5])
  if not holds then return {'version', in_force} end
  if not entry then
    if full(1) then return {'full'} end
    entry = fresh()
  end
  if entry.put ~= ARGV[4] then
    entry.put = ARGV[4]
    give_version(key, entry, 0)
    write(key, entry)
    keep_marks()
  end
  local out = {'ok'}
  append_in_force(out, entry)
  return out
end

-- name, if_match
function actions.remove()
  local key = ARGV[3]
  local entry = read(key)
  local holds, in_force = matches(entry, ARGV[4])
  if not holds then return {'version', in_force} end
  if not entry or entry.put == '' then return {'not put'} end
  entry.put = ''
  give_version(key, entry, 0)
  write(key, entry)
  keep_marks()
  local out = {'ok'}
  append_in_force(out, entry)
  return out
end

-- since, at most so many limits, at most about so many bytes: more 0 or 1, born, last, sum, and of each limit name, version,
-- revision, put, definition, in the order of versions. A foreign value is left out: nodes that know the limit fail to write
-- it again, and say so; all other limits are followed.
function actions.changes()
  local count, bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
  local keys = call('ZRANGEBYSCORE', versions, '(' .. ARGV[3], '+inf', 'LIMIT', 0, count)
  local out = {'ok', #keys == count and '1' or '0', text(born), text(last), text(sum)}
  for i = 1, #keys do
    local entry = read(keys[i], true)
    if entry then
      out[#out + 1] = keys[i]
      append_in_force(out, entry)
      bytes = bytes - #out[#out]
      if bytes < 0 and i < #keys then
        out[2] = '1'
        break
      end
    end
  end
  return out
end

return actions[what]()
