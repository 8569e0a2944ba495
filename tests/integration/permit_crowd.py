"""Very many who wait for permits of one semaphore, over RESP, driven by one thread.

    crowd = Crowd("sema", permits=10, lease_ms=60_000, hold_s=0.02)
    connection = crowd.connect(node)
    crowd.send(connection, wait_ms=60_000)       # one more who waits; its number is returned
    crowd.run(lambda: crowd.left == 0)           # holds what is granted for a while and gives it back

A connection's replies come in the order of its commands; each Waiter is told which. Who is granted gives back over a
second connection to the same node.
"""
import heapq
import re
import selectors
import socket
import time
from collections import deque

from harness import PATIENCE_S
from wire import command

GRANTED = re.compile(rb"\*4\r\n:1\r\n\$\d+\r\n([^\r]+)\r\n:(\d+)\r\n:(\d+)\r\n")
REFUSED = re.compile(rb"(\*4\r\n:0\r\n\$\d+\r\n[^\r]+\r\n(?::\d+\r\n|\$-1\r\n){2}|-[^\r]*\r\n)")
RELEASED = re.compile(rb"\*1\r\n\$\d+\r\n([^\r]+)\r\n")


class Waiter:
    def __init__(self, number, node):
        self.number, self.node = number, node
        self.permit = self.fence = self.refused = self.lost = None
        self.sent_at, self.granted_at = time.monotonic(), None


class Connection:
    """To one node. `owed` are the waiters whose replies are to come, in order."""

    def __init__(self, node):
        self.node = node
        self.socket = socket.create_connection(node.resp, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = b""
        self.owed = deque()

    def send(self, data):
        assert self.socket.send(data) == len(data), "the node does not read what it is sent"

    def receive(self):
        """False: it is closed."""
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self.received += data
        return bool(data)


class Crowd:
    def __init__(self, key, permits, lease_ms, hold_s):
        self.key, self.permits, self.lease_ms, self.hold_s = key, permits, lease_ms, hold_s
        self.waiters = []
        self.left = 0  # whose answer is to come
        self.held = self.most_held = 0
        self.answers = {}  # to releases, by what they say
        self._due = []  # (when, number) to give back
        self._selector = selectors.DefaultSelector()
        self._givers = {}

    def connect(self, node):
        connection = Connection(node)
        self._selector.register(connection.socket, selectors.EVENT_READ, (connection, self._granted))
        if node.pid not in self._givers:
            giver = self._givers[node.pid] = Connection(node)
            self._selector.register(giver.socket, selectors.EVENT_READ, (giver, self._given_back))
        return connection

    def send(self, connection, wait_ms, count=1):
        """So many more who wait, in this order, by one write."""
        for _ in range(count):
            waiter = Waiter(len(self.waiters), connection.node)
            self.waiters.append(waiter)
            connection.owed.append(waiter)
        self.left += count
        connection.send(command("PEN.ACQUIRE", self.key, self.permits, self.lease_ms, "WAIT", wait_ms) * count)

    def close(self, connection):
        """Its waiters are gone."""
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._lose(connection)

    def run(self, done):
        """Works until it is done; no test asserts how soon."""
        until = time.monotonic() + 2 * PATIENCE_S
        while not done():
            now = time.monotonic()
            assert now < until, f"it never came: {self.left} left, {self.held} held"
            while self._due and self._due[0][0] <= now:
                self._give_back(self.waiters[heapq.heappop(self._due)[1]])
            pause = self._due[0][0] - now if self._due else 0.1
            for key, _ in self._selector.select(min(max(pause, 0), 0.1)):
                connection, read = key.data
                open_still = connection.receive()
                read(connection)
                if not open_still:
                    self.close(connection)

    def finish(self):
        for key in list(self._selector.get_map().values()):
            key.data[0].socket.close()
        self._selector.close()

    # --- one at a time -----------------------------------------------------------------------------------------

    def _granted(self, connection):
        at = 0
        while connection.owed:
            if found := GRANTED.match(connection.received, at):
                self._hold(connection.owed.popleft(), found)
            elif found := REFUSED.match(connection.received, at):
                connection.owed.popleft().refused = found.group(1).decode()
            else:
                break
            self.left -= 1
            at = found.end()
        connection.received = connection.received[at:]

    def _hold(self, waiter, found):
        waiter.permit, waiter.fence, waiter.granted_at = found.group(1), int(found.group(3)), time.monotonic()
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        heapq.heappush(self._due, (waiter.granted_at + self.hold_s, waiter.number))

    def _give_back(self, waiter):
        self.held -= 1
        own = self._givers[waiter.node.pid]
        for giver in [own, *self._givers.values()]:
            try:
                return giver.send(command("PEN.RELEASE", waiter.permit))
            except OSError:  # its node is dead: another will do
                pass

    def _given_back(self, giver):
        at = 0
        while found := RELEASED.match(giver.received, at):
            word = found.group(1).decode()
            self.answers[word] = self.answers.get(word, 0) + 1
            at = found.end()
        giver.received = giver.received[at:]

    def _lose(self, connection):
        for waiter in connection.owed:
            waiter.lost = True
            self.left -= 1
        connection.owed.clear()
