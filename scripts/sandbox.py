"""Starts a service of its own for a script: free ports, a temporary data directory, one account.

Only the standard library. Used by scripts/fuzz, scripts/canary, scripts/metrics and
scripts/with-sandbox.
"""

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
# Which of the programs that cargo built are meant: those of this profile.
PROFILE = os.environ.get("ESTAFETTE_TEST_PROFILE", "release")
BINARY = TARGET / PROFILE / "estafette"
DEVTOOLS = TARGET / PROFILE / "devtools"
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
# Limits that would be what a script measures.
UNLIMITED = {
    "LIMITS__SEND_PER_S": 1_000_000,
    "LIMITS__READ_PER_S": 1_000_000,
    "LIMITS__GUEST_PER_MIN": 1_000_000,
    "LIMITS__SIGNUP_PER_MIN": 1_000_000,
    "SERVER__MAX_CONNECTIONS_PER_ADDRESS": 100_000,
}


class Broken(Exception):
    """The service did not do what every script relies on."""


def require(program):
    """A program that must have been built."""
    if not Path(program).is_file():
        build = f"cargo build --profile {PROFILE} -p estafette -p devtools"
        raise Broken(f"{program} is missing; build it: {build}")


def free_ports(count):
    """Ports that nobody listens on now, below those that the system gives to whoever connects: such
    a one may be taken again before the program that is to listen has started. All are open at
    once, so that they differ."""
    sockets = []
    try:
        while len(sockets) < count:
            each = socket.socket()
            sockets.append(each)
            try:
                each.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
            except OSError:
                sockets.pop().close()
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def call(url, method="GET", body=None, headers=None):
    """One request: (status, headers, bytes). `body` is sent as JSON, bytes are sent as they are."""
    data = None
    headers = dict(headers or {})
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def on_postgres():
    """Settings for a new database on the server that scripts/with-postgres started."""
    server = os.environ.get("ESTAFETTE_TEST_POSTGRES")
    if not server:
        raise Broken("there is no PostgreSQL; run this through scripts/with-postgres")
    name = f"sandbox_{secrets.token_hex(8)}"
    create = ["psql", "-q", f"{server}/postgres", "-c", f"CREATE DATABASE {name}"]
    if subprocess.run(create, check=False).returncode != 0:
        raise Broken("the database could not be made")
    return {"DATABASE__URL": f"{server}/{name}", "MASTER_KEY": secrets.token_hex(32)}


class Sandbox:
    """A running service. `url` is the sandbox address; `token` and `key` belong to its account."""

    def __init__(self, binary=BINARY, settings=None):
        self.binary = Path(binary)
        self.settings = settings or {}
        self.email = f"{secrets.token_hex(8)}@example.com"
        self.password = f"pass-{secrets.token_hex(12)}"
        self.token = self.key = None
        self.process = None

    def __enter__(self):
        require(self.binary)
        self.folder = tempfile.TemporaryDirectory(prefix="estafette-")
        self.data = Path(self.folder.name) / "data"
        self.log = Path(self.folder.name) / "log"
        try:
            self._start()
            self._sign_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def _start(self):
        live, sandbox, metrics = free_ports(3)
        self.url = f"http://127.0.0.1:{sandbox}"
        self.live = f"http://127.0.0.1:{live}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        settings = {
            "DATA_DIR": str(self.data),
            "SERVER__LIVE": f"127.0.0.1:{live}",
            "SERVER__SANDBOX": f"127.0.0.1:{sandbox}",
            "SERVER__METRICS": f"127.0.0.1:{metrics}",
            "SERVER__LIVE_URL": self.live,
            "SERVER__SANDBOX_URL": self.url,
            "LOG__FORMAT": "json",
            **self.settings,
        }
        self.live = settings["SERVER__LIVE_URL"]
        # Settings of the caller's own shell must not decide what a script finds.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ESTAFETTE__")}
        environment.update({f"ESTAFETTE__{k}": str(v) for k, v in settings.items()})
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(self.binary), "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Broken(f"the service ended with {self.process.returncode}:\n{self.tail()}")
            try:
                if call(self.url + "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise Broken(f"the service was not ready within {START_TIMEOUT_S} s:\n{self.tail()}")

    def _sign_up(self):
        who = {"email": self.email, "password": self.password}
        self.token = self.ask("POST", "/v1/auth/signup", who)["token"]
        made = self.ask("POST", "/v1/api-keys", {"name": "script"}, self.bearer())
        self.key = made["api_key"]

    def another_key(self):
        """The API key of a new user's account."""
        who = {"email": f"{secrets.token_hex(8)}@example.com", "password": self.password}
        bearer = {"Authorization": f"Bearer {self.ask('POST', '/v1/auth/signup', who)['token']}"}
        return self.ask("POST", "/v1/api-keys", {"name": "script"}, bearer)["api_key"]

    def bearer(self):
        """The portal token as a header."""
        return {"Authorization": f"Bearer {self.token}"}

    def keyed(self):
        """The API key as a header."""
        return {"X-API-Key": self.key}

    def ask(self, method, path, body=None, headers=None):
        """A request that must succeed; its JSON."""
        status, _, answer = call(self.url + path, method, body, headers)
        if status != 200:
            raise Broken(f"{method} {path} answers {status}: {answer.decode(errors='replace')}")
        return json.loads(answer)

    def stop(self):
        """Asks the service to stop, waits, and kills it only if it does not. Its exit code."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def tail(self, lines=20):
        """The end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
