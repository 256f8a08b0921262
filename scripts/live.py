"""A live environment for a script: programs that are spoken to line by line, a foreign message centre
(scripts/smsc_peer.js), and a service that sends by a carrier. Used by scripts/smpp and scripts/kannel.
"""

import json
import os
import queue
import re
import subprocess
import threading
import time
import urllib.request

from foreign import run
from sandbox import BINARY, ROOT, Broken, Sandbox, call

PATIENCE_S = 20


def check(is_so, what, found=""):
    if not is_so:
        raise Broken(f"{what}: {found}")


def until(what, good, within_s=PATIENCE_S):
    end = time.monotonic() + within_s
    while True:
        found = what()
        if good(found):
            return found
        if time.monotonic() > end:
            raise Broken(f"not within {within_s} s: {found}")
        time.sleep(0.05)


class Program:
    """A program that is spoken to line by line."""

    def __init__(self, command, **more):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **more
        )
        self.seen = []
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def next(self, pattern, within_s=PATIENCE_S):
        """The first line, of those not yet taken, that matches."""
        end = time.monotonic() + within_s
        while True:
            for index, line in enumerate(self.seen):
                if re.search(pattern, line):
                    return self.seen.pop(index)
            left = end - time.monotonic()
            if left <= 0:
                raise Broken(f"no line like {pattern!r} in {within_s} s; left: {self.seen[-8:]}")
            try:
                self.seen.append(self.lines.get(timeout=left))
            except queue.Empty:
                pass

    def stop(self):
        self.process.kill()
        self.process.wait()


class Peer:
    """scripts/smsc_peer.js with its control port."""

    def __init__(self, *options):
        command = ["node", str(ROOT / "scripts" / "smsc_peer.js")]
        self.program = Program(
            [*command, "--port", "0", "--http", "0", "--print-ports", "--dlr-delay", "5", *options]
        )
        ports = json.loads(self.program.next("smpp"))
        self.port, self.control = ports["smpp"], f"http://127.0.0.1:{ports['http']}"

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def behave(self, **options):
        self.ask("POST", "/behaviour", options)


class Live(Sandbox):
    """The service with one live carrier, `main`, an account with credits, and the sender ACME."""

    credits = 100_000

    def __init__(self, carrier, more=None, binary=BINARY):
        settings = {f"SMS__CARRIERS__MAIN__{key}": value for key, value in carrier.items()}
        settings["SMS__ROUTES"] = '[{prefix = "+", carriers = ["main"]}]'
        super().__init__(binary, {**settings, **(more or {})})

    def _sign_up(self):
        who = ["--email", self.email, "--password-stdin"]
        accounts = self.command("account", "add", *who, said=self.password)["accounts"]
        self.command("credits", "add", "--account", accounts["live"], "--amount", str(self.credits))
        self.key = self.command("key", "add", "--account", accounts["live"], "--name", "s")["api_key"]
        staff = f"staff-{self.email}"
        self.command("staff", "add", "--email", staff, "--password-stdin", said=self.password)
        login = {"email": staff, "password": self.password}
        self.staff = self.at("POST", "/v1/admin/auth/login", login, key=False)["token"]
        login = {"email": self.email, "password": self.password}
        self.portal = self.at("POST", "/v1/auth/login", login, key=False)["token"]
        asked = self.at("POST", "/v1/senders", {"value": "ACME"}, bearer=self.portal)
        path = f"/v1/admin/senders/{asked['id']}"
        self.at("PATCH", path, {"status": "approved"}, bearer=self.staff)
        path = f"/v1/admin/accounts/{accounts['live']}"
        self.at("PATCH", path, {"settings": {"default_sender": "ACME"}}, bearer=self.staff)

    def command(self, *words, said=""):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ESTAFETTE__")}
        own = {"DATA_DIR": self.data, **self.settings}
        environment.update({f"ESTAFETTE__{key}": str(value) for key, value in own.items()})
        done = run([str(self.binary), *words, "--json"], env=environment, input=said)
        check(done.returncode == 0, " ".join(words[:2]), done.stderr)
        return json.loads(done.stdout)

    def at(self, method, path, body=None, key=True, bearer=None):
        headers = {"X-API-Key": self.key} if key and not bearer else {}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        status, _, answer = call(self.live + path, method, body, headers)
        check(status == 200, f"{method} {path} answers {status}", answer.decode(errors="replace"))
        return json.loads(answer)

    def carrier(self):
        return self.at("GET", "/v1/admin/carriers", bearer=self.staff)[0]

    def until_up(self, within_s=PATIENCE_S):
        until(self.carrier, lambda carrier: carrier["state"] == "up", within_s)

    def text(self, to, text="hello"):
        return self.at("POST", "/v1/messages", {"to": to, "text": text})["id"]

    def until_status(self, name, status, within_s=PATIENCE_S):
        read = lambda: self.at("GET", f"/v1/messages/{name}")  # noqa: E731
        return until(read, lambda message: message["status"] == status, within_s)
