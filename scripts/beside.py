"""What figures are compared with, measured in the same run: a bare hello, nginx, and what is like a
small gateway of passcodes in front of Redis."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sandbox import DEVTOOLS, Broken, free_ports

START_TIMEOUT_S = 10


def drive(urls, keys, pids, *arguments):
    """One run of the load driver; its figures."""
    command = [DEVTOOLS, "load", "--json", *map(str, arguments)]
    for option, values in ("--url", urls), ("--key", keys), ("--server-pid", pids):
        command += [part for value in values for part in (option, str(value))]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise Broken(f"{' '.join(map(str, arguments))}:\n{ran.stdout}{ran.stderr}")
    return json.loads(ran.stdout)


class Driven:
    """Processes that answer at some addresses, and keys that they take."""

    name, urls, keys, pids, counters, options = "", [], [], [], {}, []

    def load(self, *arguments):
        """One run of the load driver, which is shown; its figures."""
        counted = [part for name, counter in self.counters.items()
                   for part in ("--counter", f"{name}={counter}")]
        figures = drive(self.urls, self.keys, self.pids, *arguments, *counted)
        print(f"{self.name}: {json.dumps(figures)}", file=sys.stderr, flush=True)
        return figures


def counters(pids, data, metrics=(), on_postgres=False):
    """Commands that count what the disk gets: {name: shell command}. `metrics`: addresses of figures
    that count commits."""
    own = " ".join(map(str, pids))
    device = os.stat(data).st_dev
    counted = {
        # Of a server that has a process for each connection, too.
        "written": f"for pid in {own} $(pgrep -d ' ' -P {own.replace(' ', ',')}); do"
                   " cat /proc/$pid/io 2>/dev/null; done |"
                   " awk '/^write_bytes/ { sum += $2 } END { printf \"%.0f\", sum }'",
    }
    if metrics:
        counted["commits"] = (f"curl -sf {' '.join(metrics)} | awk '/^estafette_store_commit_group_size_count/"
                              " { sum += $2 } END { print sum }'")
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    if stat.exists():
        # Sectors written, of 512 bytes (Documentation/block/stat.rst).
        counted["disk"] = f"awk '{{ printf \"%.0f\", $7 * 512 }}' {stat}"
    if on_postgres:
        url = os.environ["ESTAFETTE_TEST_POSTGRES"]
        counted["wal"] = (f"psql -qAt {url}/postgres -c"
                          " \"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')\"")
    return counted


def first_line(process):
    """The first line that a process prints."""
    return process.stdout.readline().strip()


def program(name, package):
    """A program of Debian's, which may be where only root looks."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if not found:
        raise Broken(f"{name} is missing; install it: apt-get install {package}")
    return found


def start(stack, *command):
    """A process that ends with `stack`; what it prints can be read."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def folder(stack):
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="figures-")))


def until_it_listens(port, process):
    """Waits for a program that says nothing itself."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Broken(f"{process.args[0]} does not listen on port {port}")


class Hello(Driven):
    """The reference."""

    name, workload, keys = "hello", "hello", ["none"]

    def __init__(self, stack):
        process = start(stack, DEVTOOLS, "hello")
        self.pids, self.urls = [process.pid], [first_line(process)]

    def measure(self, clients):
        return self.load("--workload", self.workload, *self.options, "--clients", clients,
                         "--seconds", 2, "--warmup-s", 0.5)


NGINX = """daemon off;
worker_processes auto;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }}
}}
"""


class Nginx(Hello):
    """nginx, which answers the same."""

    name = "nginx"

    def __init__(self, stack):
        (port,), place = free_ports(1), folder(stack)
        (place / "nginx.conf").write_text(NGINX.format(folder=place, port=port))
        process = start(stack, program("nginx", "nginx-light"), "-c", place / "nginx.conf")
        until_it_listens(port, process)
        self.pids, self.urls = [process.pid], [f"http://127.0.0.1:{port}"]


class Gateway(Hello):
    """Passcodes in Redis, pushed by HTTP: what a small gateway does."""

    name, workload, options = "redis", "send", ["--no-consent"]
    persistence = ["--appendonly", "no"]

    def __init__(self, stack):
        (port,), place = free_ports(1), folder(stack)
        redis = start(stack, program("redis-server", "redis-server"), "--port", port, "--bind", "127.0.0.1",
                      "--dir", place, "--save", "", *self.persistence)
        until_it_listens(port, redis)
        phone = first_line(start(stack, DEVTOOLS, "hello")).removeprefix("http://")
        gateway = start(stack, DEVTOOLS, "gateway", "--redis", f"127.0.0.1:{port}", "--push", phone)
        self.pids, self.urls = [gateway.pid, redis.pid], [first_line(gateway)]
        self.counters = counters(self.pids, place)


class FlushedGateway(Gateway):
    """The same, where what was sent is on the disk before it is answered."""

    name = "redis-flushed"
    persistence = ["--appendonly", "yes", "--appendfsync", "always"]


BESIDE = {other.name: other for other in (Nginx, Gateway, FlushedGateway)}
