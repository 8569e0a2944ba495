"""A TCP proxy that does to a connection what a network can do to it, for tests of partitions without privileges.

    with tcp_proxy.Proxy(("127.0.0.1", redis.port)) as proxy:
        ... connect to proxy.address ...
        proxy.delay(0.005)                  # every chunk is 5 ms late, both ways
        proxy.black_hole()                  # packets vanish: nothing arrives, nothing is refused, connecting hangs too
        proxy.black_hole(requests=False)    # what clients say arrives, what the server answers does not
        proxy.heal()                        # what vanished is sent again, as TCP would
        proxy.cut()                         # every connection is reset, new ones are refused, until heal()
        proxy.reset()                       # every connection is reset, new ones are served

Methods may be called from any thread and have taken effect when they return. Each direction of a connection holds at
most HELD_CHUNKS chunks back; then the sender is not read from and feels a full window.
"""
import asyncio
import socket
import struct
import threading

from port import Port

CHUNK = 65_536
HELD_CHUNKS = 64
BACKLOG = 128
PATIENCE_S = 60
WAYS = ("requests", "replies")


class Proxy:
    """Listens on a port of its own of 127.0.0.1; `target` is (host, port) or the path of a Unix socket."""

    def __init__(self, target):
        self.target = target
        self._port = Port()
        self.port = self._port.number
        self.address = ("127.0.0.1", self.port)
        self._listener = None
        self.accepted = 0  # connections that were taken since the start
        self._delays = dict.fromkeys(WAYS, 0.0)
        self._plugs = []  # connections that fill the backlog, so that the kernel drops further SYNs
        self._taking = None
        self._connections = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._begin())

    def url(self, scheme="redis", login=""):
        """redis://127.0.0.1:PORT, with a login such as user:password where one is given."""
        return f"{scheme}://{login + '@' if login else ''}127.0.0.1:{self.port}"

    def delay(self, seconds, requests=True, replies=True):
        """Both ways, or the one that is named; 0 ends it."""
        self._run(self._set_delay(seconds, requests, replies))

    def black_hole(self, requests=True, replies=True):
        """What goes these ways does not arrive. New connections hang while connecting if both are lost."""
        self._run(self._black_hole(requests, replies))

    def cut(self):
        """Connections are reset, new ones refused."""
        self._run(self._cut())

    def reset(self):
        """Connections are reset, once; what they held back is lost."""
        self._run(self._reset())

    def heal(self):
        """Ends black_hole, cut and delay."""
        self._run(self._heal())

    @property
    def connections(self):
        """How many are open."""
        return len(self._connections)

    def close(self):
        if self._loop.is_closed():
            return
        self._run(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
        self._port.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- on the proxy's own thread ----------------------------------------------------------------------------

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _begin(self):
        self._open = {way: asyncio.Event() for way in WAYS}
        for gate in self._open.values():
            gate.set()
        self._listen()

    def _listen(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(self.address)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._taking = asyncio.create_task(self._take())

    async def _take(self):
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            self.accepted += 1
            connection = _Connection(self, client)
            self._connections.add(connection)
            connection.task = asyncio.create_task(connection.run())

    async def _stop_taking(self):
        self._taking.cancel()
        await asyncio.gather(self._taking, return_exceptions=True)

    async def _stop_listening(self):
        """Who waits to be taken is reset, the plugs among them; who comes is refused."""
        await self._stop_taking()
        self._listener.close()
        for plug in self._plugs:
            plug.close()
        self._plugs = []

    async def _set_delay(self, seconds, requests, replies):
        for way, chosen in zip(WAYS, (requests, replies)):
            if chosen:
                self._delays[way] = seconds

    async def _black_hole(self, requests, replies):
        for way, lost in zip(WAYS, (requests, replies)):
            if lost:
                self._open[way].clear()
        if requests and replies and not self._plugs:
            await self._stop_taking()
            self._listener.listen(0)
            await self._plug()

    async def _plug(self):
        """Connects until the kernel takes no more."""
        for _ in range(2 * BACKLOG):
            plug = socket.socket()
            plug.setblocking(False)
            self._plugs.append(plug)
            try:
                await asyncio.wait_for(self._loop.sock_connect(plug, self.address), 0.1)
            except asyncio.TimeoutError:
                return
        raise AssertionError("the kernel takes every connection: no black hole for new ones")

    async def _reset(self):
        tasks = [connection.task for connection in self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut(self):
        await self._stop_listening()
        await self._reset()

    async def _heal(self):
        await self._set_delay(0.0, True, True)
        if self._taking.done():
            await self._stop_listening()
            self._listen()
        for gate in self._open.values():
            gate.set()


class _Connection:
    """A client, the server's end, and what is on its way between them."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.task = None

    async def run(self):
        server = None
        try:
            server = await self._dial()
            async with asyncio.TaskGroup() as group:
                self._relay(group, self.client, server, "requests")
                self._relay(group, server, self.client, "replies")
            self.client.close()  # both ways ended in order
            server.close()
        except* OSError:  # an end broke: so does the other
            pass
        finally:
            self.proxy._connections.discard(self)
            for end in (self.client, server):
                if end is not None and end.fileno() >= 0:
                    _close_by_reset(end)

    async def _dial(self):
        unix = isinstance(self.proxy.target, str)
        server = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        try:
            server.setblocking(False)
            if not unix:
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self.proxy._loop.sock_connect(server, self.proxy.target)
        except BaseException:
            server.close()
            raise
        return server

    def _relay(self, group, source, sink, way):
        """The chunks of one direction, in order, each when it is due, and the end of them."""
        held = asyncio.Queue(HELD_CHUNKS)
        group.create_task(self._read(source, held, way))
        group.create_task(self._send(held, sink, way))

    async def _read(self, source, held, way):
        loop = self.proxy._loop
        while data := await loop.sock_recv(source, CHUNK):
            await held.put((loop.time() + self.proxy._delays[way], data))
        await held.put((loop.time() + self.proxy._delays[way], b""))

    async def _send(self, held, sink, way):
        loop = self.proxy._loop
        data = b"something"
        while data:
            due, data = await held.get()
            await asyncio.sleep(due - loop.time())
            await self.proxy._open[way].wait()
            if data:
                await loop.sock_sendall(sink, data)
        sink.shutdown(socket.SHUT_WR)


def _close_by_reset(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
