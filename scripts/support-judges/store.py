"""Attachments in an S3-compatible store: they go there, come back, and nobody else gets them."""

import json
import os
import signal
import sys
import time
import urllib.request

from PIL import Image
from upload import download, upload

facts = json.load(sys.stdin)
LARGE = b"%PDF-1.4\n" + bytes(range(256)) * 38_000 + b"\n%%EOF\n"
# What a request may take.
MOST_S = 30


def keys():
    with urllib.request.urlopen(f"{facts['store']}/attachments?list-type=2", timeout=30) as answer:
        text = answer.read().decode()
    return [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]


def hanging(content):
    """Seconds until an upload to a store that does not answer is refused."""
    os.kill(facts["pid"], signal.SIGSTOP)
    begin = time.monotonic()
    try:
        status, answer = upload(facts, "a.png", "image/png", content)
    finally:
        os.kill(facts["pid"], signal.SIGCONT)
    took_s = time.monotonic() - begin
    assert status == 503, (status, answer)
    assert took_s < MOST_S, f"it took {took_s:.0f} s"
    status, answer = upload(facts, "a.png", "image/png", content)
    assert status == 200, (status, answer)
    return took_s


def main():
    import io

    out = io.BytesIO()
    Image.new("RGB", (300, 200), (9, 9, 200)).save(out, "PNG")
    small = out.getvalue()
    files = []
    for name, kind, content in [("a.png", "image/png", small), ("a.pdf", "application/pdf", LARGE)]:
        status, answer = upload(facts, name, kind, content)
        assert status == 200, (status, answer)
        file = answer["attachments"][0]["id"]
        assert download(facts, file) == (200, content), name
        assert download(facts, file, facts["staff"], "admin/") == (200, content), name
        files.append(file)
    status, preview = download(facts, files[0], suffix="/preview")
    assert status == 200 and preview.startswith(b"\x89PNG"), status
    found = keys()
    assert len(found) == 3 and all(key.startswith("estafette/support/acc_") for key in found), found
    status, answer = upload(facts, "a.png", "image/png", small + b"x")
    assert status == 415 and len(keys()) == 3, (status, answer)
    took_s = hanging(small)
    print(f"a store that hangs is given up after {took_s:.0f} s")
    print(f"{len(found)} objects, {len(LARGE)} bytes came back as they went")


main()
