"""Debian's Kannel for a script: its bearerbox and its smsbox with docs/kannel.conf, on ports of their
own. Used by scripts/kannel and scripts/sms-figures.
"""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from live import check, until
from sandbox import ROOT, Broken

PACKAGES = "kannel kannel-extras"
FAKESMSC = "/usr/lib/kannel/test/fakesmsc"


def program(name):
    """Where one of Kannel's programs is."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/lib/kannel/test")
    if not found:
        raise Broken(f"{name} is missing; install it: apt-get install {PACKAGES} (or scripts/setup)")
    return found


class Kannel:
    """A bearerbox and a smsbox with docs/kannel.conf, on ports of their own."""

    def __init__(self, ports, centre, live_url, folder, token=""):
        self.folder, self.processes = Path(folder), []
        text = (ROOT / "docs" / "kannel.conf").read_text()
        said = {
            "port = 13000": f"port = {ports['admin']}",
            "port = 13001": f"port = {ports['smsbox']}",
            "port = 13013": f"port = {ports['sendsms']}",
            "ADMIN_PASSWORD": "admin",
            "SPOOL_FOLDER": str(self.folder / "spool"),
            "SENDSMS_PASSWORD": "secret",
            "LIVE_URL": live_url,
            "sms/kannel": "sms/main",
            "CALLBACK_TOKEN": token,
            "http-queue-delay = 10": "http-queue-delay = 1",
        }
        for word, value in said.items():
            check(word in text, "docs/kannel.conf has it", word)
            text = text.replace(word, value)
        (self.folder / "spool").mkdir()
        self.conf = self.folder / "kannel.conf"
        self.conf.write_text(re.sub(r"group = smsc\n.*?\n\n", centre + "\n\n", text, flags=re.S))
        for name, port in (("bearerbox", "smsbox"), ("smsbox", "sendsms")):
            self.start(name, ports[port])

    def start(self, name, port):
        with open(self.folder / f"{name}.log", "wb") as log:
            command = [program(name), "-v", "1", str(self.conf)]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        self.processes.append(process)

        def listens(_):
            if process.poll() is not None:
                raise Broken(f"{name} ended with {process.returncode}:\n{self.tail(name)}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(lambda: None, listens)

    def tail(self, name, lines=20):
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def smpp_centre(port):
    """The group of docs/kannel.conf, with the peer's address."""
    text = (ROOT / "docs" / "kannel.conf").read_text()
    group = re.search(r"group = smsc\n.*?(?=\n\n)", text, re.S).group(0)
    group = group.replace("SMSC_HOST", "127.0.0.1").replace("port = 2775", f"port = {port}")
    return group.replace("SYSTEM_ID", "kannel").replace("PASSWORD", "secret")
