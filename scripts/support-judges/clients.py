"""Live chat with PyPI websockets: both sides, notes, one-use tokens, a reconnect with `since`."""

import asyncio
import json
import sys
import urllib.request

import websockets

facts = json.load(sys.stdin)
BASE = facts["url"].replace("http", "ws")
TICKET = facts["ticket"]


def url(side, token, more=""):
    return f"{BASE}/v1/{side}support/tickets/{TICKET}/ws?token={token}{more}"


def post(path, body, token):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(facts["url"] + path, data, headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


async def heard(socket):
    frame = json.loads(await asyncio.wait_for(socket.recv(), 20))
    assert frame["type"] == "message" and frame["ticket_id"] == TICKET, frame
    return frame["message"]


async def closed(address, code, **more):
    try:
        async with websockets.connect(address, **more) as socket:
            await asyncio.wait_for(socket.recv(), 20)
    except websockets.ConnectionClosed as end:
        assert end.rcvd and end.rcvd.code == code, (end, code)
        return
    raise AssertionError(f"not closed with {code}")


async def main():
    async with (
        websockets.connect(url("", facts["token"])) as user,
        websockets.connect(url("admin/", facts["staff"])) as staff,
    ):
        await user.send(json.dumps({"message": "from the user"}))
        one, two = await heard(user), await heard(staff)
        assert one["message"] == two["message"] == "from the user", (one, two)
        assert one["sender_type"] == "user" and "sender_id" not in one, one
        await staff.send(json.dumps({"message": "a note", "internal": True}))
        await staff.send(json.dumps({"message": "from staff"}))
        assert (await heard(staff))["internal"] is True
        seen = await heard(user)
        assert seen["message"] == "from staff" and seen["sender_type"] == "admin", seen
        last = seen["seq"]
    for number in range(50):
        body = {"message": str(number)}
        post(f"/v1/admin/support/tickets/{TICKET}/messages", body, facts["staff"])
    async with websockets.connect(url("", facts["token"], f"&since={last}")) as user:
        replayed = [await heard(user) for _ in range(50)]
        assert [message["message"] for message in replayed] == [str(n) for n in range(50)]
        await asyncio.wait_for(await user.ping(), 20)
    one_use = post(f"/v1/support/tickets/{TICKET}/ws-token", {}, facts["token"])["token"]
    async with websockets.connect(url("", one_use)) as user:
        await user.send(json.dumps({"message": "once"}))
        assert (await heard(user))["message"] == "once"
    await closed(url("", one_use), 4401)
    await closed(url("", facts["staff"]), 4401)
    await closed(url("", facts["token"]), 4403, origin="https://evil.example")
    await closed(url("", facts["token"]).replace(TICKET, TICKET[:-4] + "zzzz"), 4404)
    print(f"websockets {websockets.__version__}: both sides, a reconnect of 50, tokens, close codes")


asyncio.run(main())
