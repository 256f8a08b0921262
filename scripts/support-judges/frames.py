"""Frames of RFC 6455 against the socket. PyPI wsproto makes the handshake and the good frames, the
bad ones are made by hand; whatever comes back is read by wsproto, which refuses bad frames itself."""

import json
import os
import socket
import struct
import sys

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, Request, TextMessage
from wsproto.events import RejectConnection

facts = json.load(sys.stdin)
HOST, PORT = facts["url"].removeprefix("http://").split(":")
TARGET = f"/v1/support/tickets/{facts['ticket']}/ws?token={facts['token']}"
TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
GOOD = json.dumps({"message": "framed"}).encode()


def frame(opcode, payload, fin=True, rsv=0, masked=True, length=None):
    """One frame, as wrong as asked for."""
    size = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | (rsv << 4) | opcode])
    bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


class Client:
    """A connection that is open, and what came on it."""

    def __init__(self):
        self.tcp = socket.create_connection((HOST, int(PORT)), timeout=20)
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self.tcp.sendall(self.protocol.send(Request(host=HOST, target=TARGET)))
        self.events = []
        event = self.next()
        assert isinstance(event, AcceptConnection), event

    def next(self):
        while not self.events:
            data = self.tcp.recv(65536)
            self.protocol.receive_data(data or None)
            self.events += list(self.protocol.events())
            if not data and not self.events:
                return None
        return self.events.pop(0)

    def ending(self):
        """The code of the close, skipping what else comes."""
        while True:
            try:
                event = self.next()
            except ConnectionError:
                return "reset"
            if event is None:
                return "gone"
            if isinstance(event, CloseConnection):
                return event.code

    def text(self):
        parts = []
        while True:
            event = self.next()
            assert isinstance(event, TextMessage), event
            parts.append(event.data)
            if event.message_finished:
                return json.loads("".join(parts))["message"]["message"]


def spoken(*frames):
    """Frames that make one message."""
    client = Client()
    for part in frames:
        client.tcp.sendall(part)
    said = client.text()
    client.tcp.close()
    return said


def closed(*frames):
    client = Client()
    for part in frames:
        client.tcp.sendall(part)
    code = client.ending()
    client.tcp.close()
    return code


def handshake(**changes):
    """The status of a handshake with changed headers; 101 when it is taken."""
    headers = {
        "Host": f"{HOST}:{PORT}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for name, value in changes.items():
        headers[name.replace("_", "-")] = value
    lines = [f"GET {TARGET} HTTP/1.1"] + [f"{k}: {v}" for k, v in headers.items() if v is not None]
    with socket.create_connection((HOST, int(PORT)), timeout=20) as tcp:
        tcp.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = tcp.recv(4096).decode(errors="replace")
    if "101" in head.split("\r\n")[0]:
        assert "s3pplmbitxaq9kygzzhzrbk+xoo=" in head.lower(), head
    return int(head.split(" ")[1])


big = json.dumps({"message": "x" * 9000}).encode()
half = len(GOOD) // 2
CASES = [
    # name, what is done, what must come of it
    ("a whole text", lambda: spoken(frame(TEXT, GOOD)), "framed"),
    ("a text of 16-bit length", lambda: spoken(frame(TEXT, big)), "x" * 9000),
    ("two fragments", lambda: spoken(frame(TEXT, GOOD[:half], fin=False), frame(0, GOOD[half:])), "framed"),
    ("a fragment for each byte", lambda: spoken(
        frame(TEXT, GOOD[:1], fin=False),
        *[frame(0, GOOD[at:at + 1], fin=False) for at in range(1, len(GOOD) - 1)],
        frame(0, GOOD[-1:])), "framed"),
    ("empty fragments", lambda: spoken(frame(TEXT, b"", fin=False), frame(0, GOOD, fin=False), frame(0, b"")), "framed"),
    ("a pong between fragments", lambda: spoken(frame(TEXT, GOOD[:half], fin=False), frame(PONG, b"x"), frame(0, GOOD[half:])), "framed"),
    ("a pong nobody asked for", lambda: spoken(frame(PONG, b"hello"), frame(TEXT, GOOD)), "framed"),
    ("bytes one by one", lambda: spoken(*[bytes([byte]) for byte in frame(TEXT, GOOD)]), "framed"),
    ("UTF-8 split over fragments", lambda: spoken(
        frame(TEXT, '{"message": "é'.encode()[:-1], fin=False), frame(0, "é".encode()[1:] + b'"}')), "é"),
    ("reserved bit 1", lambda: closed(frame(TEXT, GOOD, rsv=4)), 1002),
    ("reserved bit 2", lambda: closed(frame(TEXT, GOOD, rsv=2)), 1002),
    ("reserved bit 3", lambda: closed(frame(TEXT, GOOD, rsv=1)), 1002),
    ("reserved opcode 3", lambda: closed(frame(3, GOOD)), 1002),
    ("reserved opcode 11", lambda: closed(frame(11, b"")), 1002),
    ("a frame without a mask", lambda: closed(frame(TEXT, GOOD, masked=False)), 1002),
    ("a continuation of nothing", lambda: closed(frame(CONTINUATION, GOOD)), 1002),
    ("a text inside a text", lambda: closed(frame(TEXT, b"a", fin=False), frame(TEXT, b"b")), 1002),
    ("a ping in fragments", lambda: closed(frame(PING, b"a", fin=False)), 1002),
    ("a ping of 126 bytes", lambda: closed(frame(PING, b"x" * 126)), 1002),
    ("bad UTF-8", lambda: closed(frame(TEXT, b'{"message": "\xff"}')), 1007),
    ("UTF-8 that is cut off", lambda: closed(frame(TEXT, b'{"message": "\xc3')), 1007),
    ("a surrogate in UTF-8", lambda: closed(frame(TEXT, b'{"message": "\xed\xa0\x80"}')), 1007),
    ("a binary frame", lambda: closed(frame(BINARY, b"x")), 1003),
    ("a frame of 129 KiB", lambda: closed(frame(TEXT, b"x" * 132_000)), 1009),
    ("a head that promises 2^62 bytes", lambda: closed(frame(TEXT, b"", length=1 << 62)), 1009),
    ("fragments of 129 KiB together", lambda: closed(*[frame(TEXT if at == 0 else 0, b"x" * 7000, fin=False) for at in range(19)]), 1009),
    ("close 1000", lambda: closed(frame(CLOSE, struct.pack(">H", 1000))), 1000),
    ("close 4999", lambda: closed(frame(CLOSE, struct.pack(">H", 4999))), 4999),
    ("close without a code", lambda: closed(frame(CLOSE, b"")), 1005),
    ("close with half a code", lambda: closed(frame(CLOSE, b"\x03")), 1002),
    ("close with a reserved code", lambda: closed(frame(CLOSE, struct.pack(">H", 1005))), 1002),
    ("close with a code below 1000", lambda: closed(frame(CLOSE, struct.pack(">H", 999))), 1002),
    ("close with bad UTF-8", lambda: closed(frame(CLOSE, struct.pack(">H", 1000) + b"\xff")), 1007),
    ("a good handshake", lambda: handshake(), 101),
    ("words in other cases", lambda: handshake(Upgrade="WebSocket", Connection="keep-alive, upgrade"), 101),
    ("version 8", lambda: handshake(Sec_WebSocket_Version="8"), 400),
    ("no version", lambda: handshake(Sec_WebSocket_Version=None), 400),
    ("no key", lambda: handshake(Sec_WebSocket_Key=None), 400),
    ("a short key", lambda: handshake(Sec_WebSocket_Key="AAAA"), 400),
    ("no upgrade", lambda: handshake(Upgrade=None), 400),
    ("another upgrade", lambda: handshake(Upgrade="h2c"), 400),
    ("no connection", lambda: handshake(Connection="keep-alive"), 400),
]


def main():
    wrong = []
    for name, act, expected in CASES:
        try:
            found = act()
        except (AssertionError, OSError) as error:
            found = repr(error)
        allowed = expected if isinstance(expected, tuple) else (expected,)
        if found not in allowed:
            wrong.append(f"{name}: {str(found)[:200]!r}, expected {expected!r}")
    client = Client()
    client.tcp.sendall(client.protocol.send(Ping(payload=b"marco")))
    event = client.next()
    if not (isinstance(event, Pong) and event.payload == b"marco"):
        wrong.append(f"a ping is answered with {event}")
    print(f"{len(CASES) + 1} cases, {len(wrong)} not as they should be")
    for line in wrong:
        print(f"WRONG {line}")
    return 1 if wrong else 0


assert RejectConnection
sys.exit(main())
