"""What Redis itself says of buckets, without a node: the use that stands in them, by the attribute of their key. For tests
that count what was charged; src/engine/redis/lua/README.md has the bytes.

    books.used(redis)                # {"alice": 3, ...} of the limit `daily` of domain api
    books.used(cluster.nodes)        # of all masters together
"""
import redis_groups

# Use in whole tokens, rounded up as a node counts it. A token bucket's as of its last charge: nothing drained since.
READ = """
local out = {}
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  local value = redis.call('GET', name)
  assert(value:byte(1) == 1, name .. ' is of another layout')
  local algorithm, used = value:byte(2) % 16
  if algorithm == 0 then
    used = math.ceil(struct.unpack('<d', value, 35) / struct.unpack('<d', value, 19))
  elseif algorithm == 1 then
    used = struct.unpack('<d', value, 27)
  elseif algorithm == 2 then
    used = struct.unpack('<d', value, 27) + struct.unpack('<d', value, 35)
  else
    used = struct.unpack('<d', value, 19)
  end
  out[#out + 1] = name
  out[#out + 1] = string.format('%.0f', used)
end
return out
"""


def used(servers, limit="daily", domain="api", prefix="pen:"):
    """Use by the last part of the key's name; servers is one Redis or several, of which only masters are asked."""
    several = isinstance(servers, (list, tuple))
    found = {}
    for server in servers if several else [servers]:
        if several and not redis_groups.is_master(server):
            continue
        reply = server.ask("EVAL", READ, 0, f"{prefix}{{{domain}/{limit}:*}}")
        for name, count in zip(reply[::2], reply[1::2]):
            found[name.rstrip("}").rsplit(":", 1)[1]] = int(count)
    return found


def token_bucket(redis, user, limit="daily", domain="api"):
    """(stamp in us, debt, what drains a tick, units a token) of one bucket; its tick is a microsecond's multiple that the
    limit's rate says."""
    name, = redis.keys(f"pen:{{{domain}/{limit}:*:{user}}}")
    script = """
    local version, a, b, stamp, debt = select(2, struct.unpack('<Hddddd', redis.call('GET', KEYS[1])))
    return {string.format('%.0f', stamp), string.format('%.0f', debt), string.format('%.0f', a), string.format('%.0f', b)}
    """
    return tuple(map(int, redis.ask("EVAL", script, 1, name)))
