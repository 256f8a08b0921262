"""The client of openapi-python-client: sends and verifies a passcode, sends an SMS, reads it back."""

import json
import sys

from estafette_client import AuthenticatedClient
from estafette_client.api.otp import send_otp, verify_otp
from estafette_client.api.sandbox import list_handset_messages
from estafette_client.api.sms import read_message, send_message
from estafette_client.models import (
    NewSms,
    OtpStatus,
    SendRequest,
    SentSms,
    SentView,
    SmsMessage,
    VerifiedView,
    VerifyRequest,
)


def main() -> None:
    facts = json.loads(sys.argv[1])
    to: str = facts["to"]
    client = AuthenticatedClient(
        base_url=facts["url"], token=facts["key"], prefix="", auth_header_name="X-API-Key"
    )
    sent = send_otp.sync(client=client, body=SendRequest(to=to, reference="python"))
    assert isinstance(sent, SentView), sent
    assert sent.status is not OtpStatus.FAILED, sent

    shown = list_handset_messages.sync(to, client=client, limit=10)
    assert isinstance(shown, list) and shown, shown
    code = next(message.code for message in shown if message.code)
    assert isinstance(code, str), shown

    guess = "111111" if code == "000000" else "000000"
    wrong = verify_otp.sync(
        client=client, body=VerifyRequest(code=guess, challenge_id=sent.challenge_id)
    )
    assert wrong is not None and not isinstance(wrong, VerifiedView), wrong
    told = wrong.to_dict()
    assert told["code"] == "otp_code_invalid" and told["attempts_remaining"] == 4, told

    right = verify_otp.sync(
        client=client, body=VerifyRequest(code=code, challenge_id=sent.challenge_id)
    )
    assert isinstance(right, VerifiedView) and right.verified, right

    queued = send_message.sync(
        client=client, body=NewSms(to=to, text="Your parcel arrives today at 9.")
    )
    assert isinstance(queued, SentSms), queued
    read = read_message.sync(queued.id, client=client)
    assert isinstance(read, SmsMessage) and read.id == queued.id, read
    print("sent and verified a passcode, sent an SMS and read it back")


main()
