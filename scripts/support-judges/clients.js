// Live chat with npm ws: both sides, a reconnect with `since`, close codes.
const fs = require("fs");
const path = require("path");

const facts = JSON.parse(fs.readFileSync(0, "utf8"));
const WebSocket = require(path.join(facts.modules, "node_modules", "ws"));
const base = facts.url.replace("http", "ws");

function url(side, token, more = "") {
  return `${base}/v1/${side}support/tickets/${facts.ticket}/ws?token=${token}${more}`;
}

// A socket whose frames are taken one after the other.
function open(address) {
  const socket = new WebSocket(address);
  const frames = [];
  const waiting = [];
  const give = (item) => (waiting.length ? waiting.shift()(item) : frames.push(item));
  socket.on("message", (data) => give(JSON.parse(data.toString())));
  socket.on("close", (code) => give({ closed: code }));
  const next = () =>
    new Promise((resolve, reject) => {
      if (frames.length) return resolve(frames.shift());
      waiting.push(resolve);
      setTimeout(() => reject(new Error("nothing comes")), 20000).unref();
    });
  const opened = new Promise((resolve, reject) => {
    socket.on("open", resolve);
    socket.on("error", reject);
  });
  return { socket, next, opened };
}

function check(holds, what) {
  if (!holds) throw new Error(JSON.stringify(what));
}

async function main() {
  const user = open(url("", facts.token));
  const staff = open(url("admin/", facts.staff));
  await Promise.all([user.opened, staff.opened]);
  user.socket.send(JSON.stringify({ message: "é ✓ 𝄞" }));
  const [one, two] = [await user.next(), await staff.next()];
  check(one.type === "message" && one.message.message === "é ✓ 𝄞", one);
  check(two.message.sender_type === "user", two);
  staff.socket.send(JSON.stringify({ message: "a note", internal: true }));
  staff.socket.send(JSON.stringify({ message: "from staff" }));
  const seen = await user.next();
  check(seen.message.message === "from staff" && seen.message.seq === 4, seen);
  user.socket.close();
  check((await user.next()).closed === 1005, "close");
  const again = open(url("", facts.token, "&since=1"));
  const replayed = [await again.next(), await again.next()];
  check(replayed.map((frame) => frame.message.seq).join() === "2,4", replayed);
  const refused = open(url("", "wrong"));
  check((await refused.next()).closed === 4401, "refused");
  console.log(`ws ${require(path.join(facts.modules, "node_modules/ws/package.json")).version}: both sides, a reconnect, close codes`);
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
