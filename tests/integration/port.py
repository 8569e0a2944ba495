"""A TCP port that no other test of this machine takes while its object lives, so that what was closed can listen there
again. tests/redis/port.h does the same by the same lock."""
import contextlib
import random
import socket

PORTS = range(20_000, 32_000)  # below those that the kernel gives to clients


class Port:
    def __init__(self):
        for self.number in random.SystemRandom().sample(PORTS, len(PORTS)):
            self.lock = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(OSError), socket.socket() as probe:
                self.lock.bind(f"\0penstock-port-{self.number}")
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", self.number))
                return
            self.lock.close()
        raise AssertionError("no port is free")

    def close(self):
        self.lock.close()
