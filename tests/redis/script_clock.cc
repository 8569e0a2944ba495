#include "redis/script_clock.h"

#include <vector>

namespace penstock::fixtures {

// A value with a time to live ends in ~ttl and its last millisecond, as a double; that of a set, which PEXPIRE gives it,
// stands beside it under a key that ends so.
std::string_view ScriptClock() {
  static const std::string line = [] {
    std::string lines = R"lua(
local redis = (function(real)
  local now
  for _, key in ipairs({CLOCK_KEYS}) do
    now = tonumber(real.pcall('GET', key))
    if now then break end
  end
  local second = math.floor(now / 1000000)
  local ms = math.floor(now / 1000)
  local function visible(value)
    if not value or #value < 12 or string.sub(value, -12, -9) ~= '~ttl' then return value end
    return ms <= struct.unpack('<d', string.sub(value, -8)) and string.sub(value, 1, -13)
  end
  local function set(call, key, value, ...)
    local options = {...}
    local fresh = false
    for i, option in ipairs(options) do
      if option == 'PX' then value = value .. '~ttl' .. struct.pack('<d', ms + options[i + 1]) end
      fresh = fresh or option == 'NX'
    end
    if not fresh then return call('SET', key, value) end
    local there = real.pcall('GET', key)
    if there and (type(there) == 'table' or visible(there)) then return false end
    return call('SET', key, value)
  end
  local looked = {}
  local function look(key)
    if looked[key] then return end
    looked[key] = true
    local until_ms = tonumber(real.pcall('GET', key .. '~ttl'))
    if until_ms and ms > until_ms then real.call('DEL', key, key .. '~ttl') end
  end
  local function through(call)
    return function(name, ...)
      if string.sub(name, 1, 1) == 'Z' then look((...)) end
      if name == 'PEXPIRE' then
        local key, more = ...
        real.call('SET', key .. '~ttl', string.format('%.0f', ms + more))
        return 1
      end
      if name == 'TIME' then return {string.format('%.0f', second), string.format('%.0f', now - second * 1000000)} end
      if name == 'SET' then return set(call, ...) end
      local reply = call(name, ...)
      if name == 'GET' and type(reply) == 'string' then return visible(reply) end
      if name == 'MGET' and not reply.err then
        for i = 1, #reply do reply[i] = visible(reply[i]) end
      end
      return reply
    end
  end
  return setmetatable({call = through(real.call), pcall = through(real.pcall)}, {__index = real})
end)(redis)
)lua";
    std::string keys;
    for (const std::string_view key : kScriptClockKeys) keys += "'" + std::string(key) + "',";
    constexpr std::string_view kPlace = "CLOCK_KEYS";
    lines.replace(lines.find(kPlace), kPlace.size(), keys);
    // One line, so that the lines of an error in the body are those of its own files.
    for (char& c : lines) c = c == '\n' ? ' ' : c;
    return lines + "\n";
  }();
  return line;
}

std::string SetScriptClock(EngineTime now, std::string_view key) {
  return Command(std::vector<std::string>{"SET", std::string(key), std::to_string(now.us)});
}

}  // namespace penstock::fixtures
