"""A headless Chromium for scripts that look at a page as people do. Only the standard library: it
is spoken to over a pipe (--remote-debugging-pipe), in JSON that ends with a zero byte.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
# How long an answer, or what is waited for, may take on a busy machine.
PATIENCE_S = 120


class Unseen(Exception):
    """The browser, or the page, did not do what was asked of it."""


def found():
    """A Chromium of this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `said` has what went wrong on it, `asked` the addresses that it asked for."""

    def __init__(self, program):
        self.program = program
        self.said, self.asked = [], []
        self.last_id, self.rest = 0, b""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        to_child, self.write_to = os.pipe()
        self.read_from, from_child = os.pipe()

        def wire():
            # Chromium reads commands from 3 and writes answers to 4; neither may be in the way.
            reads, writes = os.dup(to_child), os.dup(from_child)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        command = [
            self.program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-dev-shm-usage",
            f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe",
        ]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                 "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=wire, **quiet)
        os.close(to_child)
        os.close(from_child)
        made = self.call("Target.createTarget", {"url": "about:blank"}, None)
        attached = {"targetId": made["targetId"], "flatten": True}
        self.session = self.call("Target.attachToTarget", attached, None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        for end in (self.write_to, self.read_from):
            os.close(end)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def call(self, method, parameters=None, session=""):
        """A command, and its answer."""
        self.last_id += 1
        command = {"id": self.last_id, "method": method, "params": parameters or {}}
        if session is not None:
            command["sessionId"] = self.session
        os.write(self.write_to, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next(method)
            if message.get("id") != self.last_id:
                self._hear(message)
            elif "error" in message:
                raise Unseen(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def _next(self, wanted):
        while b"\0" not in self.rest:
            if not select.select([self.read_from], [], [], PATIENCE_S)[0]:
                raise Unseen(f"{wanted} was not answered within {PATIENCE_S} s")
            more = os.read(self.read_from, 1 << 20)
            if not more:
                raise Unseen(f"{self.program} ended during {wanted}")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def _hear(self, message):
        about = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.said.append(json.dumps(about["exceptionDetails"])[:400])
        elif message.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.said.append(about["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.said.append(" ".join(str(one.get("value", "")) for one in about["args"])[:400])

    def sized(self, width, height, is_phone=False):
        """The page as wide and high as that, in its own pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        self.call("Emulation.setDeviceMetricsOverride", size)

    def opens(self, url):
        """Goes there."""
        went = self.call("Page.navigate", {"url": url})
        if "errorText" in went:
            raise Unseen(f"{url}: {went['errorText']}")

    def runs(self, script):
        """What a script gives, as JSON; promises are waited for."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True,
                 "userGesture": True}
        done = self.call("Runtime.evaluate", asked)
        if "exceptionDetails" in done:
            said = done["exceptionDetails"].get("exception", {}).get("description", "")
            raise Unseen(f"{script[:200]!r} ended with {said}")
        return done["result"].get("value")

    def until(self, script, what):
        """What a script gives, once that is something."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            value = self.runs(script)
            if value:
                return value
            time.sleep(0.1)
        raise Unseen(f"{what} did not come within {PATIENCE_S} s")

    def types(self, text):
        """Types into what has the focus."""
        self.call("Input.insertText", {"text": text})

    def draws(self, file):
        """The page as it is seen now, as a PNG."""
        data = self.call("Page.captureScreenshot", {"format": "png"})["data"]
        with open(file, "wb") as picture:
            picture.write(base64.b64decode(data))
