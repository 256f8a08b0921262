// The client of openapi-typescript and openapi-fetch: sends and verifies a passcode, sends an SMS
// and reads it back. Types come from the description alone.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const { url, key, to } = JSON.parse(process.argv[2] ?? "{}") as Record<string, string>;
const client = createClient<paths>({ baseUrl: url, headers: { "X-API-Key": key } });

function must<T>(data: T | undefined, error: unknown): T {
  if (data === undefined) throw new Error(`refused: ${JSON.stringify(error)}`);
  return data;
}

async function main(): Promise<void> {
  const sending = await client.POST("/v1/otp/send", {
    body: { to, reference: "fetch" },
    params: { header: { "Idempotency-Key": `fetch-${Date.now()}` } },
  });
  const sent = must(sending.data, sending.error);
  const status: components["schemas"]["OtpStatus"] = sent.status;
  if (status === "failed") throw new Error("the passcode failed");

  const shown = await client.GET("/v1/sandbox/handsets/{phone}/messages", {
    params: { path: { phone: to }, query: { limit: 10 } },
  });
  const code = must(shown.data, shown.error).find((message) => message.code)?.code;
  if (!code) throw new Error("the handset shows no code");

  const wrong = await client.POST("/v1/otp/verify", {
    body: { challenge_id: sent.challenge_id, code: code === "000000" ? "111111" : "000000" },
  });
  // The code tells the members: this is what the description is typed for.
  if (wrong.error?.code !== "otp_code_invalid") throw new Error("a wrong code is told as such");
  const left: number = wrong.error.attempts_remaining;
  if (left !== 4) throw new Error(`${left} guesses are left`);

  const right = await client.POST("/v1/otp/verify", {
    body: { challenge_id: sent.challenge_id, code },
  });
  if (must(right.data, right.error).verified !== true) throw new Error("not verified");

  const message = await client.POST("/v1/messages", {
    body: { to, text: "Your parcel arrives today at 9." },
  });
  const { id } = must(message.data, message.error);
  const read = await client.GET("/v1/messages/{message_id}", {
    params: { path: { message_id: id } },
  });
  if (must(read.data, read.error).id !== id) throw new Error("another message");
  console.log("sent and verified a passcode, sent an SMS and read it back");
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
