// The client of @hey-api/openapi-ts: sends and verifies a passcode, sends an SMS and reads it back.
import { client } from "./hey/client.gen";
import {
  listHandsetMessages,
  readMessage,
  sendMessage,
  sendOtp,
  verifyOtp,
} from "./hey/sdk.gen";
import type { OtpStatus } from "./hey/types.gen";

const { url, key, to } = JSON.parse(process.argv[2] ?? "{}") as Record<string, string>;
client.setConfig({ baseUrl: url, auth: key });

async function main(): Promise<void> {
  const sent = await sendOtp({ body: { to, reference: "hey" }, throwOnError: true });
  const status: OtpStatus = sent.data.status;
  if (status === "failed") throw new Error("the passcode failed");

  const shown = await listHandsetMessages({
    path: { phone: to },
    query: { limit: 10 },
    throwOnError: true,
  });
  const code = shown.data.find((message) => message.code)?.code;
  if (!code) throw new Error("the handset shows no code");

  const wrong = await verifyOtp({
    body: { challenge_id: sent.data.challenge_id, code: code === "000000" ? "111111" : "000000" },
  });
  if (wrong.error?.code !== "otp_code_invalid") throw new Error("a wrong code is told as such");
  const left: number = wrong.error.attempts_remaining;
  if (left !== 4) throw new Error(`${left} guesses are left`);

  const right = await verifyOtp({
    body: { challenge_id: sent.data.challenge_id, code },
    throwOnError: true,
  });
  if (right.data.verified !== true) throw new Error("not verified");

  const message = await sendMessage({
    body: { to, text: "Your parcel arrives today at 9." },
    throwOnError: true,
  });
  const read = await readMessage({ path: { message_id: message.data.id }, throwOnError: true });
  if (read.data.id !== message.data.id) throw new Error("another message");
  console.log("sent and verified a passcode, sent an SMS and read it back");
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
