"""The processes that benchmarks start, and what they measure of them."""
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "{{}}"; }}
  }}
}}
"""


class Server:
    """A server process, its ports, and the CPU it has used."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, **options)

    def cpu_us(self):
        # The children count too: nginx's worker is one.
        pids = [self.process.pid] + [int(p) for p in children(self.process.pid)]
        total = 0
        for pid in pids:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * TICK_US

    def run_on(self, cores):
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(thread), cores)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port} after {seconds} s")


def start_penstock(folder, policy_text, *arguments):
    """A server with one thread: the process, its HTTP port and its RESP port."""
    policy = os.path.join(folder, "policy.yaml")
    with open(policy, "w", encoding="utf-8") as f:
        f.write(policy_text)
    http, resp = free_port(), free_port()
    binary = os.path.join(BUILD, "penstock")
    server = Server([binary, "serve", "--policy", policy, "--threads", "1", "--http", f"127.0.0.1:{http}",
                     "--resp", f"127.0.0.1:{resp}", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(http)
    return server, http, resp


def start_redis(folder):
    port = free_port()
    server = Server(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                     "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return server, port


def start_nginx(folder):
    port = free_port()
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(NGINX.format(folder=folder, port=port))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    server = Server([nginx, "-c", path, "-p", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return server, port


def redis_benchmark(port, calls, pipeline, command, clients=50):
    """A load: calls it made, and the seconds they took."""
    def load():
        start = time.monotonic()
        out = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", str(clients), "-r", "100000",
                              "-n", str(calls), "-P", str(pipeline), "-q", *command], capture_output=True, text=True,
                             check=True).stdout
        wall = time.monotonic() - start
        rate = re.findall(r"([0-9.]+) requests per second", out)
        return calls, (calls / float(rate[-1]) if rate else wall)
    return load


class Series:
    """Throughput and CPU a call of one load, over the rounds."""

    def __init__(self):
        self.rate = []
        self.cpu = []

    def measure(self, server, load):
        if hasattr(server, "empty"):
            server.empty()
        before = server.cpu_us()
        calls, seconds = load()
        self.cpu.append((server.cpu_us() - before) / calls)
        self.rate.append(calls / seconds)

    def medians(self):
        return statistics.median(self.rate), statistics.median(self.cpu)


def compare(title, ours, reference, reference_name):
    rate, cpu = ours.medians()
    reference_rate, reference_cpu = reference.medians()
    print(f"  {title:<34} {rate / 1000:9.0f} k/s {cpu:7.2f} us    {reference_name:<22} {reference_rate / 1000:9.0f} k/s "
          f"{reference_cpu:7.2f} us    throughput {rate / reference_rate:5.2f}   CPU {cpu / reference_cpu:5.2f}")


def binary(name):
    path = os.path.join(BUILD, name)
    return path if os.path.exists(path) else os.path.join(BUILD, "bench", name)
