"""What resp_server.py asks of a client, by the redis-py that this Python has: HOST PORT TOKEN."""
import asyncio
import sys

import redis

HOST, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), sys.argv[3]
NEW = int(redis.__version__.split(".")[0]) >= 5  # knows RESP3

FRESH = [1, "allowed", 20, 19, 0, 600, 0, 0, None, None, None, None, 0, 1]
NEVER = [0, "never", 20, 19, None, 600, 0, 0, None, None, None, None, 0, 1]


def same(what, got, wanted):
    assert got == wanted, f"{what}: {got!r}, not {wanted!r}"


def expect_error(client, words, *command):
    try:
        answer = client.execute_command(*command)
    except redis.RedisError as error:
        # redis-py takes the first word off some messages and makes a class of it.
        assert words in f"{type(error).__name__} {error}", f"{command}: {error!r}"
    else:
        raise AssertionError(f"{command}: answered {answer!r}, no error")


def ask_everything(name, **options):
    client = redis.Redis(HOST, PORT, password=TOKEN, decode_responses=True, client_name="a-client", **options)
    same("PING", client.ping(), True)
    same("ECHO", client.echo("hear me"), "hear me")
    same("CLIENT GETNAME", client.client_getname(), "a-client")
    key = f"redis-py:{name}"
    same("CL.THROTTLE", client.execute_command("CL.THROTTLE", key, 15, 30, 60), [0, 16, 15, -1, 2])
    pipeline = client.pipeline(transaction=False)
    for _ in range(20):
        pipeline.execute_command("CL.THROTTLE", key, 15, 30, 60)
    wanted = [[0, 16, 14 - i, -1, 4 + 2 * i] for i in range(15)] + [[1, 16, 0, 2, 32]] * 5
    same("pipeline", pipeline.execute(), wanted)
    same("PEN.CHECK", client.execute_command("PEN.CHECK", "api", 1, "user", key), FRESH)
    same("never", client.execute_command("PEN.CHECK", "api", 1, "user", key, "COST", 21), NEVER)
    expect_error(client, "NOTFOUND", "PEN.CHECK", "nowhere", 0)
    expect_error(client, "count must be from 1", "CL.THROTTLE", key, 1, 0, 60)
    expect_error(client, "unknown command", "GET", "x")
    same("after errors", client.ping(), True)
    client.close()
    return name


def refuse_without_token():
    for password, words in ((None, "Authentication"), ("wrong", "invalid username-password pair")):
        client = redis.Redis(HOST, PORT, password=password)
        expect_error(client, words, "PING")
        client.close()


async def ask_without_blocking():
    import redis.asyncio as asynchronous  # pylint: disable=import-outside-toplevel
    client = asynchronous.Redis(host=HOST, port=PORT, password=TOKEN, decode_responses=True)
    answers = await asyncio.gather(*(client.execute_command("CL.THROTTLE", "redis-py:async", 15, 30, 60)
                                     for _ in range(20)))
    same("20 at once", sorted(answer[0] for answer in answers), [0] * 16 + [1] * 4)
    await (client.aclose() if hasattr(client, "aclose") else client.close())
    return "asyncio"


def main():
    done = [ask_everything("RESP2", **({"protocol": 2} if NEW else {}))]
    if NEW:
        done.append(ask_everything("RESP3", protocol=3))
    refuse_without_token()
    done.append(asyncio.run(ask_without_blocking()))
    print(f"redis-py {redis.__version__} on Python {sys.version.split()[0]}: {', '.join(done)}")


main()
