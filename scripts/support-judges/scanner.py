"""Attachments before a real clamd: what its signature names is refused, and so is everything when
it is not there."""

import json
import socket
import sys
import time

from upload import upload

facts = json.load(sys.stdin)


def pdf(inside):
    return b"%PDF-1.4\n" + inside + b"\n%%EOF\n"


def main():
    clean = pdf(b"nothing to see")
    # Until clamd has read its signatures nothing is taken.
    end = time.monotonic() + 60
    status, answer = upload(facts, "a.pdf", "application/pdf", clean)
    while status == 503 and time.monotonic() < end:
        time.sleep(0.5)
        status, answer = upload(facts, "a.pdf", "application/pdf", clean)
    assert status == 200, (status, answer)
    with socket.create_connection(("127.0.0.1", facts["port"]), timeout=10) as tcp:
        tcp.sendall(b"zVERSION\0")
        version = tcp.recv(200).rstrip(b"\0").decode()
    infected = pdf(b"estafette-test-signature-of-its-own")
    status, answer = upload(facts, "a.pdf", "application/pdf", infected)
    assert (status, answer["code"]) == (415, "unsupported_file_type"), (status, answer)
    assert "Estafette.Test" in answer["detail"], answer
    print(f"{version}: a clean file taken, one with our signature refused")


main()
