"""Bare clients for tests that must say byte by byte what goes over the socket: HTTP/1.1 and RESP, on one connection
that is kept. Sending and receiving are apart, so that requests can be pipelined or cut anywhere."""
import json
import socket
import ssl

from harness import PATIENCE_S


class Closed(Exception):
    """The server closed the connection."""


class Wire:
    """A connection and what was received on it but not yet taken. `address` is (host, port)."""

    def __init__(self, address, tls=None, server_name="localhost"):
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=server_name)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def _more(self):
        try:
            data = self.socket.recv(262_144)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(f"closed by the server after {self.received[:200]!r}")
        self.received += data

    def line(self):
        """One line without its CR LF."""
        end = self.received.find(b"\r\n")
        while end < 0:
            self._more()
            end = self.received.find(b"\r\n")
        line, self.received = self.received[:end], self.received[end + 2:]
        return line

    def exactly(self, size):
        while len(self.received) < size:
            self._more()
        data, self.received = self.received[:size], self.received[size:]
        return data

    def until_closed(self):
        """Everything up to the server's close; a reset ends it too."""
        try:
            while True:
                self._more()
        except Closed:
            pass
        data, self.received = self.received, b""
        return data


class Response:
    """Status, headers by lower-case name, body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Http(Wire):
    def send(self, method, target, body=b"", headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        lines = [f"{method} {target} HTTP/1.1", "Host: penstock"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        self.send_bytes(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    def receive(self, head_only=False):
        status = int(self.line().split(b" ", 2)[1])
        headers = {}
        while line := self.line().decode():
            name, value = line.split(":", 1)
            assert name.lower() not in headers, f"{name} stands twice"
            headers[name.lower()] = value.strip()
        size = 0 if head_only else int(headers.get("content-length", 0))
        return Response(status, headers, self.exactly(size))

    def ask(self, method, target, body=b"", headers=()):
        self.send(method, target, body, headers)
        return self.receive(head_only=method == "HEAD")

    def check(self, body):
        return self.ask("POST", "/v1/check", body)


class RespError(str):
    """An error reply; a value, not an exception, because a test wants to compare it."""


def command(*args):
    """A command as the protocol has it: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Resp(Wire):
    def send(self, *args):
        self.send_bytes(command(*args))

    def receive(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RespError(rest.decode(errors="backslashreplace"))
        if kind == b":":
            return int(rest)
        if kind in (b"$", b"="):
            size = int(rest)
            return None if size < 0 else self.exactly(size + 2)[:-2].decode()
        if kind in (b"*", b"~", b">"):
            return None if int(rest) < 0 else [self.receive() for _ in range(int(rest))]
        if kind == b"%":
            return {self.receive(): self.receive() for _ in range(int(rest))}
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        raise AssertionError(f"no RESP reply begins with {line[:80]!r}")

    def ask(self, *args):
        self.send(*args)
        return self.receive()


def trusting(certificate):
    """A TLS context that trusts exactly this certificate."""
    return ssl.create_default_context(cafile=str(certificate))
