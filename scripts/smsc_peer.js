#!/usr/bin/env node
'use strict';
/*
 * smsc_peer.js - a small SMSC for tests and benchmarks. Node >= 18, no dependencies, loopback only by default.
 *
 *   node smsc_peer.js --port 2775 --http 2780            # accepts any system_id/password
 *   node smsc_peer.js --port 0 --http 0 --print-ports    # ephemeral ports, prints one JSON line {"smpp":..,"http":..}
 *
 * Options (changed while it runs by POST /behaviour with a JSON object of the same names in camelCase; host, ports and seed count at
 * start only, enquire and mo-every act on sessions that bind afterwards):
 *   --host 127.0.0.1        bind address
 *   --port 2775 --http 2780 SMPP port, control port (0 = ephemeral)
 *   --user U --pass P       only these credentials (default: any); a wrong pair gets ESME_RINVPASWD
 *   --max-binds N           more sessions of the same system_id get ESME_RALYBND (default 0 = no limit)
 *   --id-format dec|hex|uuid|hexdec|dechex   message ids. hexdec: resp carries hex, receipt decimal; dechex: the reverse
 *   --dlr both|text|tlv|none     form of the receipt        --dlr-delay MS (default 20)
 *   --dlr-early RATE        share of receipts that are written BEFORE the submit_sm_resp
 *   --dlr-dup RATE          share of receipts that are sent twice
 *   --dlr-pdu deliver|data  receipt as deliver_sm (default) or data_sm
 *   --states DELIVRD:100    weights of final states, e.g. DELIVRD:90,UNDELIV:5,EXPIRED:3,REJECTD:2
 *   --resp-delay MS         latency of submit_sm_resp       --tps N  above it: ESME_RTHROTTLED (token bucket per session, burst N/10)
 *   --throttle-rate R --sysfail-rate R --queue-full-rate R  random ESME_RTHROTTLED / ESME_RSYSERR / ESME_RMSGQFUL
 *   --no-resp-rate R        submit_sm accepted, response never sent (client must time out; the receipt still comes)
 *   --drop-every N          the TCP connection is cut on every Nth submit_sm, after accepting it, before the response
 *   --unbind-every N        unbind is sent after every Nth submit_sm_resp
 *   --enquire MS            enquire_link to the client every MS (0 = never); 2 unanswered in a row cut the connection
 *   --mo-every MS           one MO message every MS to each receiver/transceiver session
 *   --mute                  stop answering enquire_link (half-dead link)
 *   --quirks a,b            nonconformant but seen in the field: tlvnonul, tail, longsysid, nulbody, shortdate, unknowntlv
 *   --seed N                random seed, so a run repeats   --keep N  messages kept for GET /messages (default 1000, 0 = none)
 *
 * Behaviour by destination (last 4 digits), deterministic, for tests:
 *   9001 ESME_RTHROTTLED the first 2 times, then accepted   9002 ESME_RINVDSTADR   9003 ESME_RSYSERR   9004 no response
 *   9005 cut the connection instead of a response            9006 accepted, no receipt
 *   9011 UNDELIV  9012 EXPIRED  9013 REJECTD  9014 DELETED  9015 UNKNOWN  9016 ENROUTE, then DELIVRD
 *   9017 receipt before the response  9018 receipt twice  9019 receipt DELIVRD then UNDELIV (contradiction)
 *
 * Control: GET /stats, DELETE /stats, GET /messages?limit=N (default 100), DELETE /messages, POST /behaviour {..}, POST /kick (cut all),
 *   POST /unbind, POST /mo {"to":"ACME","from":"+336..","text":"STOP","long":"udh8|udh16|sar|payload","shuffle":true,"ucs2":true,"system_id":".."},
 *   POST /dlr {"id":"..","stat":"UNDELIV","err":"034"}.
 * Receipts for a system_id with no bound receiver are held and sent at the next bind. Unanswered ones are sent again at the next bind.
 */
const net = require('net'), http = require('http');

// ---------- options ----------
const opt = { host: '127.0.0.1', port: 2775, http: 2780, user: null, pass: null, maxBinds: 0, idFormat: 'dec', dlr: 'both', dlrDelay: 20,
  dlrEarly: 0, dlrDup: 0, dlrPdu: 'deliver', states: 'DELIVRD:100', respDelay: 0, tps: 0, throttleRate: 0, sysfailRate: 0, queueFullRate: 0,
  noRespRate: 0, dropEvery: 0, unbindEvery: 0, enquire: 0, moEvery: 0, mute: false, quirks: '', seed: 1, keep: 1000, printPorts: false };
for (let a = process.argv.slice(2); a.length;) {
  const k = a.shift().replace(/^--/, '').replace(/-(.)/g, (_, c) => c.toUpperCase());
  if (!(k in opt)) { console.error('unknown option --' + k); process.exit(2); }
  if (typeof opt[k] === 'boolean') opt[k] = true;
  else { const v = a.shift(); opt[k] = typeof opt[k] === 'number' ? Number(v) : v; }
}
let rs = opt.seed >>> 0 || 1;                                   // xorshift32: runs repeat with the same seed
const rnd = () => { rs ^= rs << 13; rs ^= rs >>> 17; rs ^= rs << 5; rs >>>= 0; return rs / 4294967296; };
let quirks = new Set(), states = [];
function compile() {
  quirks = new Set(String(opt.quirks || '').split(',').filter(Boolean));
  states = String(opt.states).split(',').map(s => { const [n, w] = s.split(':'); return [n, Number(w ?? 1)]; });
  states.total = states.reduce((t, s) => t + s[1], 0);
}
compile();
const pickState = () => { let x = rnd() * states.total; for (const [n, w] of states) if ((x -= w) < 0) return n; return states[0][0]; };

// ---------- protocol ----------
const C = { nack: 0x80000000, bindRx: 1, bindTx: 2, query: 3, submit: 4, deliver: 5, unbind: 6, cancel: 8, bindTrx: 9, enquire: 0x15, data: 0x103 };
const E = { OK: 0, INVCMDID: 3, INVBNDSTS: 4, ALYBND: 5, SYSERR: 8, INVSRCADR: 0xa, INVDSTADR: 0xb, INVPASWD: 0xe, MSGQFUL: 0x14, THROTTLED: 0x58 };
const STATE = { ENROUTE: 1, DELIVRD: 2, EXPIRED: 3, DELETED: 4, UNDELIV: 5, ACCEPTD: 6, UNKNOWN: 7, REJECTD: 8 };
const ERR = { DELIVRD: '000', EXPIRED: '027', UNDELIV: '034', REJECTD: '069', DELETED: '012' };
const EMPTY = Buffer.alloc(0);
function pdu(id, status, seq, body = EMPTY) {
  const b = Buffer.allocUnsafe(16 + body.length);
  b.writeUInt32BE(b.length, 0); b.writeUInt32BE(id >>> 0, 4); b.writeUInt32BE(status, 8); b.writeUInt32BE(seq, 12);
  body.copy(b, 16);
  return b;
}
const cstr = s => Buffer.from(s + '\0', 'latin1');
function tlv(tag, v) { const b = Buffer.allocUnsafe(4 + v.length); b.writeUInt16BE(tag, 0); b.writeUInt16BE(v.length, 2); v.copy(b, 4); return b; }
function readCstr(b, o) { const e = b.indexOf(0, o.p); if (e < 0) throw new Error('cstr'); const s = b.latin1Slice(o.p, e); o.p = e + 1; return s; }
function parseSm(b, isData) {                                   // submit_sm / deliver_sm body, or data_sm
  const o = { p: 16 }, m = {};
  m.service = readCstr(b, o); m.srcTon = b[o.p++]; m.srcNpi = b[o.p++]; m.src = readCstr(b, o);
  m.dstTon = b[o.p++]; m.dstNpi = b[o.p++]; m.dst = readCstr(b, o); m.esm = b[o.p++];
  if (!isData) {
    m.pid = b[o.p++]; m.prio = b[o.p++]; m.sched = readCstr(b, o); m.validity = readCstr(b, o);
    m.rd = b[o.p++]; m.replace = b[o.p++]; m.dcs = b[o.p++]; m.defMsg = b[o.p++];
    const n = b[o.p++]; m.sm = b.subarray(o.p, o.p += n);
  } else { m.rd = b[o.p++]; m.dcs = b[o.p++]; m.sm = EMPTY; }
  m.tlv = null;
  while (o.p + 4 <= b.length) { const t = b.readUInt16BE(o.p), l = b.readUInt16BE(o.p + 2); o.p += 4; (m.tlv ??= new Map()).set(t, b.subarray(o.p, o.p += l)); }
  if (m.tlv?.has(0x424)) m.sm = m.tlv.get(0x424);
  return m;
}
const GSM = '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà';
const EXT = { 0x0a: '\f', 0x14: '^', 0x28: '{', 0x29: '}', 0x2f: '\\', 0x3c: '[', 0x3d: '~', 0x3e: ']', 0x40: '|', 0x65: '€' };
const EXTR = Object.fromEntries(Object.entries(EXT).map(([k, v]) => [v, Number(k)]));
function gsmDecode(b) { let s = ''; for (let i = 0; i < b.length; i++) { if (b[i] === 0x1b && i + 1 < b.length) s += EXT[b[++i]] ?? ' '; else s += GSM[b[i] & 0x7f]; } return s; }
function gsmEncode(t) { const o = []; for (const c of t) { const i = GSM.indexOf(c); if (i >= 0 && c !== '\x1b') o.push(i); else if (c in EXTR) o.push(0x1b, EXTR[c]); else return null; } return Buffer.from(o); }
const ucs2 = t => Buffer.from(t, 'utf16le').swap16();
function decodeText(dcs, b) {
  const g = dcs >= 0xf0 ? (dcs & 4 ? 4 : 0) : dcs;
  if (g === 8 || g === 0x18) return Buffer.from(b.subarray(0, b.length & ~1)).swap16().toString('utf16le');
  if (g === 3) return b.toString('latin1');
  if (g === 4 || g === 2) return b.toString('hex');
  return gsmDecode(b);
}

// ---------- state ----------
const sessions = new Set(), held = new Map();                    // held: system_id -> receipts waiting for a bind
const log = [], byId = new Map(), concat = new Map(), tries = new Map();
const stat = { submits: 0, accepted: 0, throttled: 0, refused: 0, noResp: 0, dropped: 0, dlrSent: 0, dlrAcked: 0, moSent: 0, moAcked: 0, binds: 0, bindFail: 0, enquireIn: 0, enquireOut: 0, nacks: 0, malformed: 0, maxWindow: 0, firstMs: 0, lastMs: 0, texts: 0 };
let counter = 0;
const pad = (n, w) => String(n).padStart(w, '0');
const stamp = d => pad(d.getUTCFullYear() % 100, 2) + pad(d.getUTCMonth() + 1, 2) + pad(d.getUTCDate(), 2) + pad(d.getUTCHours(), 2) + pad(d.getUTCMinutes(), 2);
function newId() {                                               // [id in submit_sm_resp, id in the receipt]
  const n = 1000000000 + ++counter, h = n.toString(16).toUpperCase();
  switch (opt.idFormat) {
    case 'hex': return [h, h];
    case 'uuid': { const u = require('crypto').randomUUID(); return [u, u]; }
    case 'hexdec': return [h, String(n)];
    case 'dechex': return [String(n), h];
    default: return [String(n), String(n)];
  }
}

// ---------- timers in 5 ms buckets: one timer however many receipts ----------
const wheel = new Map();
function later(ms, f) {
  const at = Math.ceil((Date.now() + ms) / 5) * 5, l = wheel.get(at);
  if (l) { l.push(f); return; }
  wheel.set(at, [f]);
  setTimeout(() => { const q = wheel.get(at); wheel.delete(at); for (const s of sessions) s.sock.cork(); for (const g of q) g(); for (const s of sessions) s.sock.uncork(); }, Math.max(0, at - Date.now()));
}

// ---------- receipts and MO ----------
function receiptBody(r, st) {
  const err = r.err ?? ERR[st] ?? '000', now = new Date();
  const d = stamp(now), done = quirks.has('shortdate') ? d.slice(0, 6) : d;
  const text = `id:${r.dlrId} sub:001 dlvrd:${st === 'DELIVRD' ? '001' : '000'} submit date:${stamp(r.at)} done date:${done} stat:${st} err:${err} text:${r.head}`;
  const isData = opt.dlrPdu === 'data', sm = opt.dlr === 'tlv' || isData ? EMPTY : Buffer.from(text, 'latin1');
  const esm = st === 'ENROUTE' || st === 'ACCEPTD' ? 0x20 : 0x04;
  const addr = Buffer.concat([cstr(''), Buffer.from([r.dstTon, r.dstNpi]), cstr(r.dst), Buffer.from([r.srcTon, r.srcNpi]), cstr(r.src)]);
  const parts = isData ? [addr, Buffer.from([esm, 0, 0])] : [addr, Buffer.from([esm, 0, 0, 0, 0, 0, 0, 0, 0, sm.length]), sm];
  if (opt.dlr === 'both' || opt.dlr === 'tlv' || isData) {
    parts.push(tlv(0x1e, quirks.has('tlvnonul') ? Buffer.from(r.dlrId, 'latin1') : cstr(r.dlrId)), tlv(0x427, Buffer.from([STATE[st] ?? 7])));
    if (st !== 'DELIVRD') parts.push(tlv(0x423, Buffer.from([3, 0, Number(err) & 0xff])));
  }
  if (quirks.has('unknowntlv')) parts.push(tlv(0x1403, Buffer.from([1, 2, 3])));
  return Buffer.concat(parts);
}
function receiver(sysId, prefer) {
  if (prefer && prefer.alive && prefer.rx) return prefer;
  for (const s of sessions) if (s.alive && s.rx && s.sysId === sysId) return s;
  return null;
}
function sendReceipt(r, st, prefer) {
  const s = receiver(r.sysId, prefer);
  if (!s) { let h = held.get(r.sysId); if (!h) held.set(r.sysId, h = []); h.push([r, st]); return; }
  const seq = s.seq();
  s.unacked.set(seq, ['dlr', r, st]);
  s.write(pdu(opt.dlrPdu === 'data' ? C.data : C.deliver, 0, seq, receiptBody(r, st)));
  stat.dlrSent++; r.dlr = st;
}
let moRef = 0;
function sendMo(s, m) {
  const text = m.text ?? 'hello', g = gsmEncode(text), dcs = g && !m.ucs2 ? 0 : 8, body = dcs ? ucs2(text) : g;
  const one = dcs ? 140 : 160, max = dcs ? 134 : 153, ref = ++moRef & 0xffff, kind = m.long ?? 'udh8', parts = [];
  if (kind === 'payload' || body.length <= one) parts.push(body);
  else for (let p = 0; p < body.length;) {
    let e = Math.min(p + (kind === 'udh16' ? max - (dcs ? 2 : 1) : max), body.length);
    if (e < body.length) { if (!dcs && body[e - 1] === 0x1b) e--; if (dcs && (body[e - 2] & 0xfc) === 0xd8) e -= 2; }
    parts.push(body.subarray(p, e)); p = e;
  }
  const src = String(m.from ?? '33612345678').replace(/^\+/, ''), dst = String(m.to ?? '38000');
  const n = parts.length, order = m.shuffle ? [...parts.keys()].reverse() : [...parts.keys()];
  for (const i of order) {
    let sm = parts[i], esm = 0; const tl = [];
    if (kind === 'payload') { tl.push(tlv(0x424, sm)); sm = EMPTY; }
    else if (n > 1 && kind === 'sar') tl.push(tlv(0x20c, Buffer.from([ref >> 8, ref & 255])), tlv(0x20e, Buffer.from([n])), tlv(0x20f, Buffer.from([i + 1])));
    else if (n > 1) { esm = 0x40; sm = Buffer.concat([kind === 'udh16' ? Buffer.from([6, 8, 4, ref >> 8, ref & 255, n, i + 1]) : Buffer.from([5, 0, 3, ref & 255, n, i + 1]), sm]); }
    const seq = s.seq();
    s.unacked.set(seq, ['mo', m]);
    s.write(pdu(C.deliver, 0, seq, Buffer.concat([cstr(''), Buffer.from([1, 1]), cstr(src), Buffer.from([/^\d+$/.test(dst) ? 3 : 5, 0]), cstr(dst), Buffer.from([esm, 0, 0, 0, 0, 0, 0, dcs, 0, sm.length]), sm, ...tl])));
    stat.moSent++;
  }
}

// ---------- sessions ----------
class Session {
  constructor(sock) {
    Object.assign(this, { sock, alive: true, bound: false, rx: false, tx: false, sysId: '', buf: EMPTY, n: 0, next: 1, unacked: new Map(), pendingEl: 0, window: 0, tokens: 1, at: Date.now() });
    sock.setNoDelay(true);
    sock.on('data', d => this.data(d)); sock.on('error', () => {}); sock.on('close', () => this.closed());
    sessions.add(this);
  }
  seq() { const s = this.next; this.next = s >= 0x7fffffff ? 1 : s + 1; return s; }
  write(b) { if (this.alive) this.sock.write(b); }
  cut() { this.alive = false; this.sock.destroy(); }
  closed() {
    this.alive = false; sessions.delete(this); clearInterval(this.elTimer); clearInterval(this.moTimer);
    for (const [k, r, st] of this.unacked.values()) if (k === 'dlr') { let h = held.get(r.sysId); if (!h) held.set(r.sysId, h = []); h.push([r, st]); }
  }
  data(d) {
    let b = this.buf.length ? Buffer.concat([this.buf, d]) : d, p = 0;
    this.sock.cork();
    while (b.length - p >= 4) {
      const len = b.readUInt32BE(p);
      if (len < 16 || len > 65536) { stat.malformed++; this.write(pdu(C.nack, 2, 0)); this.sock.uncork(); return this.cut(); }
      if (b.length - p < len) break;
      const one = b.subarray(p, p + len); p += len;
      try { this.pdu(one); } catch (e) { stat.malformed++; this.write(pdu(C.nack, 2, one.readUInt32BE(12))); }
      if (!this.alive) break;
    }
    this.buf = p < b.length ? Buffer.from(b.subarray(p)) : EMPTY;
    this.sock.uncork();
  }
  pdu(b) {
    const id = b.readUInt32BE(4), seq = b.readUInt32BE(12);
    switch (id) {
      case C.submit: return this.submit(b, seq, false);
      case C.data: return this.submit(b, seq, true);
      case C.deliver + C.nack: case C.data + C.nack: { const u = this.unacked.get(seq); if (u) { this.unacked.delete(seq); stat[u[0] + 'Acked']++; } return; }
      case C.enquire: stat.enquireIn++; if (!opt.mute) this.write(pdu(C.enquire + C.nack, 0, seq, quirks.has('tail') ? Buffer.from([0]) : EMPTY)); return;
      case C.enquire + C.nack: this.pendingEl = 0; return;
      case C.bindRx: case C.bindTx: case C.bindTrx: return this.bind(b, id, seq);
      case C.unbind: this.write(pdu(C.unbind + C.nack, 0, seq)); this.sock.end(); return;
      case C.unbind + C.nack: this.sock.end(); return;
      case C.query: { const o = { p: 16 }, mid = readCstr(b, o), r = byId.get(mid); return this.write(pdu(C.query + C.nack, r ? 0 : 0x67, seq, r ? Buffer.concat([cstr(mid), cstr(''), Buffer.from([STATE[r.dlr] ?? 1, 0])]) : EMPTY)); }
      case C.cancel: return this.write(pdu(C.cancel + C.nack, 0x11, seq));
      case C.nack: stat.nacks++; return;
      default: this.write(pdu(C.nack, E.INVCMDID, seq));
    }
  }
  bind(b, id, seq) {
    const o = { p: 16 }, sysId = readCstr(b, o), pass = readCstr(b, o); readCstr(b, o); const version = b[o.p];
    const same = [...sessions].filter(s => s.bound && s.sysId === sysId).length;
    const st = this.bound ? E.INVBNDSTS : (opt.user && sysId !== opt.user) || (opt.pass && pass !== opt.pass) ? E.INVPASWD : opt.maxBinds && same >= opt.maxBinds ? E.ALYBND : 0;
    if (st) { stat.bindFail++; this.write(pdu(id + C.nack, st, seq)); return; }
    this.bound = true; this.sysId = sysId; this.rx = id !== C.bindTx; this.tx = id !== C.bindRx; stat.binds++;
    this.write(pdu(id + C.nack, 0, seq, Buffer.concat([cstr(quirks.has('longsysid') ? 'SMSC-PEER-LONG-SYSTEM-ID' : 'smsc_peer'), version >= 0x34 ? tlv(0x210, Buffer.from([0x34])) : EMPTY])));
    if (opt.enquire) this.elTimer = setInterval(() => { if (++this.pendingEl > 2) return this.cut(); stat.enquireOut++; this.write(pdu(C.enquire, 0, this.seq())); }, opt.enquire);
    if (this.rx) {
      if (opt.moEvery) this.moTimer = setInterval(() => sendMo(this, { text: 'mo ' + (stat.moSent + 1), to: '38000' }), opt.moEvery);
      const h = held.get(sysId); if (h) { held.delete(sysId); for (const [r, s] of h) sendReceipt(r, s, this); }
    }
  }
  submit(b, seq, isData) {
    const now = Date.now(), rid = (isData ? C.data : C.submit) + C.nack;
    stat.submits++; stat.firstMs ||= now; stat.lastMs = now;
    if (!this.tx) return this.write(pdu(rid, E.INVBNDSTS, seq));
    const m = parseSm(b, isData), tail = m.dst.slice(-4);
    const fail = c => { c === E.THROTTLED ? stat.throttled++ : stat.refused++; this.write(pdu(rid, c, seq, quirks.has('nulbody') ? Buffer.from([0]) : EMPTY)); };
    if (opt.tps) {
      this.tokens = Math.min(Math.max(1, opt.tps / 10), this.tokens + (now - this.at) * opt.tps / 1000); this.at = now;
      if (this.tokens < 1) return fail(E.THROTTLED);
      this.tokens--;
    }
    const x = opt.throttleRate || opt.sysfailRate || opt.queueFullRate ? rnd() : 1;
    if (x < opt.throttleRate) return fail(E.THROTTLED);
    if (x < opt.throttleRate + opt.sysfailRate) return fail(E.SYSERR);
    if (x < opt.throttleRate + opt.sysfailRate + opt.queueFullRate) return fail(E.MSGQFUL);
    if (!m.dst) return fail(E.INVDSTADR);
    if (tail === '9001') { const k = m.dst + ':' + m.sm.toString('hex'), n = (tries.get(k) ?? 0) + 1; tries.set(k, n); if (n <= 2) return fail(E.THROTTLED); }
    if (tail === '9002') return fail(E.INVDSTADR);
    if (tail === '9003') return fail(E.SYSERR);
    // accepted
    stat.accepted++;
    const [rspId, dlrId] = newId(), udh = m.esm & 0x40 ? m.sm[0] + 1 : 0, payload = m.sm.subarray(udh);
    const r = { id: rspId, dlrId, sysId: this.sysId, src: m.src, srcTon: m.srcTon, srcNpi: m.srcNpi, dst: m.dst, dstTon: m.dstTon, dstNpi: m.dstNpi, at: new Date(now), head: '', dlr: null };
    if (opt.keep) this.remember(r, m, payload);
    if (opt.dlr !== 'none') r.head = gsmSafeHead(payload, m.dcs);
    const wantsDlr = opt.dlr !== 'none' && (m.rd & 3) !== 0 && tail !== '9006';
    const special = { 9011: 'UNDELIV', 9012: 'EXPIRED', 9013: 'REJECTD', 9014: 'DELETED', 9015: 'UNKNOWN' }[tail];
    const st = special ?? pickState();
    const early = wantsDlr && (tail === '9017' || (opt.dlrEarly && rnd() < opt.dlrEarly));
    if (early) sendReceipt(r, st, this);
    const drop = tail === '9005' || (opt.dropEvery && stat.accepted % opt.dropEvery === 0);
    const mute = tail === '9004' || (opt.noRespRate && rnd() < opt.noRespRate);
    if (drop) { stat.dropped++; this.sock.uncork(); this.cut(); }
    else if (mute) stat.noResp++;
    else {
      const resp = pdu(rid, 0, seq, quirks.has('tail') ? Buffer.concat([cstr(rspId), Buffer.from([0])]) : cstr(rspId));
      if (opt.respDelay) { if (++this.window > stat.maxWindow) stat.maxWindow = this.window; later(opt.respDelay, () => { this.window--; this.write(resp); }); }
      else this.write(resp);
      if (opt.unbindEvery && stat.accepted % opt.unbindEvery === 0) later(opt.respDelay, () => this.write(pdu(C.unbind, 0, this.seq())));
    }
    if (!wantsDlr || early) return;
    const d = opt.dlrDelay + opt.respDelay;
    if (tail === '9016') { later(d, () => sendReceipt(r, 'ENROUTE', this)); later(d + 50, () => sendReceipt(r, 'DELIVRD', this)); return; }
    if (tail === '9019') { later(d, () => sendReceipt(r, 'DELIVRD', this)); later(d + 50, () => sendReceipt(r, 'UNDELIV', this)); return; }
    later(d, () => sendReceipt(r, st, this));
    if (tail === '9018' || (opt.dlrDup && rnd() < opt.dlrDup)) later(d + 10, () => sendReceipt(r, st, this));
  }
  remember(r, m, payload) {
    const e = { id: r.id, system_id: this.sysId, src: m.src, src_ton: m.srcTon, src_npi: m.srcNpi, dst: m.dst, dst_ton: m.dstTon, dst_npi: m.dstNpi, esm_class: m.esm, data_coding: m.dcs, registered_delivery: m.rd, validity_period: m.validity, bytes: m.sm.length, payload_tlv: !!m.tlv?.has(0x424), get dlr() { return r.dlr; } };
    let c = null;                                               // [ref, total, index]
    if (m.esm & 0x40) for (let p = 1; p < m.sm[0] + 1;) { const t = m.sm[p], l = m.sm[p + 1]; if (t === 0 && l === 3) c = ['8:' + m.sm[p + 2], m.sm[p + 3], m.sm[p + 4]]; if (t === 8 && l === 4) c = ['16:' + m.sm.readUInt16BE(p + 2), m.sm[p + 4], m.sm[p + 5]]; p += 2 + l; }
    if (m.tlv?.has(0x20c)) c = ['sar:' + m.tlv.get(0x20c).readUInt16BE(0), m.tlv.get(0x20e)[0], m.tlv.get(0x20f)[0]];
    if (c) {
      e.part = { ref: c[0], total: c[1], index: c[2] };
      const k = [this.sysId, m.src, m.dst, c[0], c[1]].join('|'), a = concat.get(k) ?? []; a[c[2] - 1] = Buffer.from(payload); concat.set(k, a);
      if (a.filter(Boolean).length === c[1]) { concat.delete(k); e.text = decodeText(m.dcs, Buffer.concat(a)); e.complete = true; stat.texts++; }
    } else { e.text = decodeText(m.dcs, payload); e.complete = true; stat.texts++; }
    if (log.length >= opt.keep) { const old = log.splice(0, Math.ceil(opt.keep / 10)); for (const o of old) byId.delete(o.id); }
    log.push(e); byId.set(r.id, r);
  }
}
function gsmSafeHead(b, dcs) { if (dcs === 8) return ''; let s = ''; for (let i = 0; i < b.length && i < 20; i++) s += b[i] >= 32 && b[i] < 127 ? String.fromCharCode(b[i]) : '.'; return s; }

// ---------- control ----------
const smpp = net.createServer(s => new Session(s));
const ctl = http.createServer((q, a) => {
  let body = '';
  q.on('data', d => { body += d; });
  q.on('end', () => {
    const u = new URL(q.url, 'http://x'), out = (c, o) => { a.writeHead(c, { 'content-type': 'application/json' }); a.end(JSON.stringify(o) + '\n'); };
    let j = {};
    try { if (body) j = JSON.parse(body); } catch { return out(400, { error: 'json' }); }
    const live = [...sessions].filter(s => s.alive && s.bound);
    switch (q.method + ' ' + u.pathname) {
      case 'GET /stats': { const ms = stat.lastMs - stat.firstMs; return out(200, { ...stat, sessions: live.length, held: [...held.values()].reduce((n, h) => n + h.length, 0), unacked: live.reduce((n, s) => n + s.unacked.size, 0), submitsPerSec: ms > 0 ? Math.round(stat.submits / ms * 1000) : 0, rssMiB: Math.round(process.memoryUsage().rss / 1048576) }); }
      case 'DELETE /stats': for (const k in stat) stat[k] = 0; return out(200, {});
      case 'GET /messages': return out(200, log.slice(-Number(u.searchParams.get('limit') ?? 100)));
      case 'DELETE /messages': log.length = 0; byId.clear(); return out(200, {});
      case 'POST /behaviour': for (const k in j) if (k in opt) opt[k] = j[k]; compile(); return out(200, opt);
      case 'POST /kick': for (const s of sessions) s.cut(); return out(200, { cut: live.length });
      case 'POST /unbind': for (const s of live) s.write(pdu(C.unbind, 0, s.seq())); return out(200, { unbound: live.length });
      case 'POST /mo': { const s = live.find(s => s.rx && (!j.system_id || s.sysId === j.system_id)); if (!s) return out(409, { error: 'no receiver bound' }); sendMo(s, j); return out(200, {}); }
      case 'POST /dlr': { const r = byId.get(j.id); if (!r) return out(404, { error: 'unknown id' }); r.err = j.err; sendReceipt(r, j.stat ?? 'DELIVRD', null); return out(200, {}); }
      default: return out(404, { error: 'no such path' });
    }
  });
});
smpp.listen(opt.port, opt.host, () => ctl.listen(opt.http, opt.host, () => {
  const p = { smpp: smpp.address().port, http: ctl.address().port };
  console.log(opt.printPorts ? JSON.stringify(p) : `smsc_peer: SMPP ${opt.host}:${p.smpp}, control http://${opt.host}:${p.http}`);
}));
for (const sig of ['SIGINT', 'SIGTERM']) process.on(sig, () => { for (const s of sessions) s.cut(); process.exit(0); });
