"""Packages of other people that judge ours: installed below target/, never into the machine."""

import shutil
import subprocess
import sys

from sandbox import TARGET


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


def python_with(package, name):
    """(a Python that has the package, None), or (None, why there is none)."""
    folder = TARGET / f"venv-{name}"
    program = folder / "bin" / "python"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        made = run([sys.executable, "-m", "venv", str(folder)])
        if made.returncode != 0:
            return None, made.stderr
    installed = run([str(program), "-m", "pip", "install", "--quiet", package])
    if installed.returncode != 0:
        return None, installed.stderr
    return str(program), None


def node_with(package, name):
    """(a folder in which Node finds the package, None), or (None, why there is none)."""
    if not (shutil.which("node") and shutil.which("npm")):
        return None, "node or npm is not installed"
    folder = TARGET / f"node-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    installed = run([*command, package])
    if installed.returncode != 0:
        return None, installed.stderr
    return folder, None


def reason(why):
    """The last line of what an installer said."""
    return ((why or "").strip().splitlines()[-1:] or ["no reason given"])[0]
