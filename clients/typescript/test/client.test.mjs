// The client against a gate that is played here, on a good day and on all others.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import {
  Gate,
  Held,
  Key,
  KeyFileError,
  NotSent,
  RateLimited,
  Refused,
  Unknown,
  decimal,
  sign,
  tools,
} from "../src/index.js";
import { Spool } from "../src/spool.js";
import { frame, toJson } from "../src/wire.js";

const SECRET = "0123456789abcdef".repeat(4);
const KEY_FILE = { principal: "trend-bot", key_id: "k", algorithm: "hmac-sha256", secret: SECRET };
const done = (value = 1) => ({ status: "success", data: { value } });
const refusal = (code) => ({ status: "error", error: { code, message: "no" }, data: { retry: "never" } });
const later = (retry) => ({
  status: "rate_limited",
  error: { code: "RATE_LIMITED", message: "too much" },
  data: { retry, retry_after_ms: 20 },
});
const HELD = {
  status: "requires_approval",
  error: { code: "HELD", message: "m" },
  data: { Held: { hold_id: "h-1", expires_at: "x" } },
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let home, taken, ends;
const path = (...names) => [home, "spool", ...names].join("/");

function keyFile(text, mode = 0o600) {
  const file = `${home}/key-${Math.random()}`;
  fs.writeFileSync(file, text);
  fs.chmodSync(file, mode);
  return file;
}

const gate = (more = {}) => new Gate(home, { key: keyFile(JSON.stringify(KEY_FILE)), wait: 5, ...more });

/** Publishes as a gate does: a hidden file, then renamed. */
function answer(name, whole, folder = "out") {
  const requestId = name.endsWith(".error.json") ? "" : name.replace(/^\+|\.json$/g, "");
  fs.writeFileSync(
    path(folder, `.${name}.tmp`),
    typeof whole === "string" ? whole : JSON.stringify({ requestId, ...whole }),
  );
  fs.renameSync(path(folder, `.${name}.tmp`), path(folder, name));
}

/** Calls `react(name, bytes)` for every file that is handed in, after taking it. */
function play(react, folder = "in") {
  const timer = setInterval(() => {
    for (const name of fs.readdirSync(path(folder)).sort()) {
      const file = path(folder, name);
      if (name.startsWith(".") || !name.endsWith(".json") || fs.statSync(file).nlink !== 1) continue;
      taken.push({ name, data: fs.readFileSync(file, "utf8"), mode: fs.statSync(file).mode & 0o777 });
      fs.renameSync(file, `${home}/taken`);
      react(name);
    }
  }, 2);
  ends.push(() => clearInterval(timer));
}

beforeEach(() => {
  home = fs.mkdtempSync(`${tmpdir()}/spoolgate-`);
  for (const name of ["in/trend-bot/tmp", "in/trend-bot/new", "out/trend-bot"])
    fs.mkdirSync(path(name), { recursive: true });
  [taken, ends] = [[], []];
});
afterEach(async () => {
  for (const end of ends) await end();
  fs.rmSync(home, { recursive: true });
});

test("a request is handed in whole and answered", async () => {
  play((name) => answer(name, done()));
  assert.deepEqual(await gate().ask("x", { n: decimal("0.10") }, { id: "r-1", causality: { root_task_id: "t" } }), {
    value: 1,
  });
  assert.equal(taken[0].name, "r-1.json");
  assert.match(taken[0].data, /"payload":\{"n":0\.10\}.*,"causality":\{"root_task_id":"t"\}\}$/);
  assert.ok(taken[0].mode & 0o040);
  assert.deepEqual(fs.readdirSync(path("in")), ["trend-bot"]);
});

test("an own spool, and an id for which the file has a plus", async () => {
  play((name) => answer(name, done(), "out/trend-bot"), "in/trend-bot/new");
  assert.deepEqual(await gate({ agent: "trend-bot" }).ask("x", {}, { id: "-r" }), { value: 1 });
  assert.equal(taken[0].name, "+-r.json");
  assert.deepEqual(fs.readdirSync(path("in/trend-bot/tmp")), []);
});

test("a mask that closes everything", async () => {
  const old = process.umask(0o077);
  ends.push(() => process.umask(old));
  play((name) => answer(name, done()));
  await gate().ask("x", {});
  assert.equal(taken[0].mode, 0o640);
});

test("methods and bodies", async () => {
  play((name) => answer(name, { status: "success", data: { Accepted: { order_id: "o-1", checks_passed: [] } } }));
  assert.equal((await gate().cancelOrder({ order_id: "o-1" })).order_id, "o-1");
  assert.match(taken[0].data, /"action":"order.cancel","payload":\{"order_id":"o-1"\}/);
});

test("held, then done", async () => {
  play((name) => {
    answer(name, HELD);
    setTimeout(answer, 100, name, done());
  });
  const held = await gate()
    .ask("x", {})
    .catch((error) => error);
  assert.ok(held instanceof Held && held instanceof Refused);
  assert.equal(held.holdId, "h-1");
  assert.deepEqual(await held.wait(5), { value: 1 });
  answer(`${held.request.id}.json`, HELD);
  await assert.rejects(held.wait(0.05), Held);
});

test("rate limited: the same bytes, or the payload anew", async () => {
  const tricky = '{"b":0.10,"source":"x","payload":{"signature":"\\""}}';
  for (const [retry, at, isSame] of [
    ["after", undefined, true],
    ["new_id", undefined, false],
    ["after", "2020-01-01T00:00:00Z", false],
  ]) {
    const answers = [later(retry), done()];
    taken = [];
    play((name) => answer(name, answers.shift()));
    const [client, id] = [gate(), `r-${Math.random()}`];
    const { bytes } = await sign(client.key, "x", tricky, { id, causality: tricky, at });
    const limited = await client.send(bytes).catch((error) => error);
    assert.ok(limited instanceof RateLimited);
    assert.deepEqual(await limited.again(), { value: 1 });
    assert.equal(taken[0].data === taken[1].data, isSame);
    assert.equal(taken[1].data.split(tricky).length, 3);
    // Again after silence: what was sent the second time is the request from now on.
    answers.push(done());
    assert.deepEqual(await limited.again(), { value: 1 });
    assert.equal(taken[2].data, taken[1].data);
    ends.pop()();
  }
});

test("silence: the same bytes", async () => {
  const client = gate({ wait: 0.05 });
  const lost = await client.ask("x", {}, { id: "r" }).catch((error) => error);
  assert.ok(lost instanceof Unknown);
  const waiting = fs.readFileSync(path("in/r.json"), "utf8");
  assert.equal(lost.request.bytes.toString(), waiting);
  client.wait = 5;
  play(() => answer("r.json", done()));
  assert.deepEqual(await lost.again(), { value: 1 });
  assert.ok(taken.every(({ data }) => data === waiting));
});

test("an answer is read when it is whole, and never through a link", async () => {
  answer("other.json", done(666));
  play(async (name) => {
    const another = JSON.stringify({ requestId: name.toUpperCase(), ...done(666) }); // as where a file system ignores case
    for (const part of [
      "",
      "{",
      JSON.stringify(done()).slice(0, -1),
      "\0\0",
      "{}",
      '{"status":"maybe"}',
      "[]",
      "null",
      another,
    ]) {
      answer(name, part);
      await sleep(15);
    }
    fs.unlinkSync(path("out", name));
    fs.symlinkSync("other.json", path("out", name));
    await sleep(50);
    answer(name, done());
  });
  assert.deepEqual(await gate().ask("x", {}), { value: 1 });
});

test("answers from before, and of others", async () => {
  answer("r.json", done("old"));
  answer("r.json.error.json", refusal("REQUEST_ID_CONFLICT"));
  play((name) => answer(name, done("new")));
  assert.deepEqual(await gate().ask("x", {}, { id: "r" }), { value: "new" });
  ends.pop()();

  setTimeout(() => answer("s.json", done("another's")), 50);
  await assert.rejects(gate({ wait: 0.3 }).ask("x", {}, { id: "s" }), Unknown);
});

test("a gate that answers between two looks", async () => {
  // The file waits when the client looks at it, and is taken and answered before the client looks at anything else.
  const real = Spool.prototype.stat;
  ends.push(() => (Spool.prototype.stat = real));
  for (const isBefore of [true, false]) {
    Spool.prototype.stat = function stat(folder, name) {
      const found = real.call(this, folder, name);
      if (folder !== this.new || !fs.existsSync(path("in", name))) return found;
      fs.renameSync(path("in", name), `${home}/taken`);
      answer(name, done());
      return isBefore ? real.call(this, folder, name) : found;
    };
    assert.deepEqual(await gate({ wait: 1 }).ask("x", {}), { value: 1 });
  }
});

test("a waiting file is not replaced, and the conflict is this one's", async () => {
  fs.writeFileSync(path("in/r.json"), "another's");
  fs.linkSync(path("in/r.json"), `${home}/stays`);
  play(async (name) => {
    answer("r.json", done("another's"));
    await sleep(50);
    answer(`${name}.error.json`, refusal("REQUEST_ID_CONFLICT"));
  });
  await assert.rejects(gate().ask("x", {}, { id: "r" }), (error) => error.code === "REQUEST_ID_CONFLICT");
  assert.equal(taken[0].name, "r.1.json");
  assert.equal(fs.readFileSync(path("in/r.json"), "utf8"), "another's");
});

test("a refusal that another provoked under the same name, and one of this file", async () => {
  play((name) => {
    answer(`${name}.error.json`, refusal("SIGNATURE_INVALID"));
    if (name === "r.json") setTimeout(answer, 200, name, done());
  });
  assert.deepEqual(await gate().ask("x", {}, { id: "r" }), { value: 1 });
  await assert.rejects(gate().ask("x", {}), (error) => error instanceof Refused && error.code === "SIGNATURE_INVALID");
});

test("nothing is sent into folders behind links or of strangers, or where there is none", async () => {
  fs.mkdirSync(`${home}/trap`);
  fs.renameSync(path("in/trend-bot/new"), path("in/trend-bot/was"));
  fs.symlinkSync(`${home}/trap`, path("in/trend-bot/new"));
  await assert.rejects(gate({ agent: "trend-bot" }).ask("x", {}), NotSent);
  assert.deepEqual([...fs.readdirSync(`${home}/trap`), ...fs.readdirSync(path("in/trend-bot/tmp"))], []);
  await assert.rejects(gate({ agent: "nobody" }).ask("x", {}), NotSent);
  await assert.rejects(new Gate(`${home}/nowhere`, { key: gate().key }).ask("x", {}), NotSent);
  if (process.getuid() === 0) {
    for (const name of ["", "in", "out", "out/trend-bot"]) fs.chownSync(path(name), 1234, 0);
    fs.chownSync(path("in/trend-bot"), 4321, 0);
    await assert.rejects(gate({ agent: "trend-bot" }).ask("x", {}), /user 4321/);
  }
});

test("the socket: other answers first, closed connections, half answers", async () => {
  const got = [];
  const plays = [
    (client) => client.destroy(),
    (client, id) => client.end(frame(Buffer.from(JSON.stringify({ requestId: id, ...done() }))).subarray(0, 20)),
    (client, id) => {
      client.write(frame(Buffer.from(JSON.stringify({ requestId: "another", ...done(2) }))));
      client.end(frame(Buffer.from(JSON.stringify({ requestId: id, ...done() }))));
    },
  ];
  const server = createServer((client) => {
    const react = plays.shift();
    let data = Buffer.alloc(0);
    client.on("error", () => {});
    client.on("data", (piece) => {
      data = Buffer.concat([data, piece]);
      if (data.length < 4 || data.length < 4 + data.readUInt32BE(0)) return;
      got.push(data.subarray(4).toString());
      react(client, JSON.parse(got.at(-1)).id);
    });
  });
  await new Promise((resolve) => server.listen(`${home}/gate.sock`, resolve));
  ends.push(() => new Promise((resolve) => server.close(resolve)));
  const client = new Gate(undefined, { socket: `${home}/gate.sock`, key: gate().key, wait: 5 });
  assert.deepEqual(await client.ask("x", { s: "y".repeat(300_000) }), { value: 1 });
  assert.equal(new Set(got).size, 1);
  assert.equal(got.length, 3);
  await assert.rejects(new Gate(undefined, { socket: `${home}/none`, key: client.key }).ask("x", {}), NotSent);
});

test("the secret is nowhere", async () => {
  const client = gate();
  const lost = await gate({ wait: 0 })
    .ask("x", {})
    .catch((error) => error);
  for (const thing of [client, client.key, lost]) {
    for (const text of [String(thing), JSON.stringify(thing), inspect(thing, { depth: 9, showHidden: true })]) {
      assert.ok(!text.includes(SECRET) && !text.includes(Buffer.from(SECRET, "hex").toString("base64")));
    }
  }
});

test("key files that cannot be used", () => {
  const of = (changed) => JSON.stringify({ ...KEY_FILE, ...changed });
  for (const text of [
    "",
    `x${SECRET}`,
    SECRET,
    "[]",
    "null",
    of({ secret: SECRET.toUpperCase() }),
    of({ secret: SECRET.slice(1) }),
    of({ secret: `${SECRET}\n` }),
    of({ secret: 1 }),
    of({ more: "x" }),
    of({ algorithm: "none" }),
    of({}) + SECRET,
    `${of({}).slice(0, -1)},"secret":"${SECRET}"}`,
    of({}) + " ".repeat(4096),
    "[".repeat(3000),
  ]) {
    const file = keyFile(text);
    assert.throws(
      () => new Key(file),
      (error) => {
        assert.ok(error instanceof KeyFileError, text.slice(0, 40));
        assert.ok(!inspect(error).replace(file, "").includes(SECRET.slice(0, 32)));
        return true;
      },
    );
  }
  for (const mode of [0o640, 0o604, 0o620, 0o601, 0o660])
    assert.throws(() => new Key(keyFile(of({}), mode)), /chmod 600/);
  assert.ok(new Key(keyFile(of({}), 0o400)));
  assert.throws(() => new Key(home));
});

test("numbers and payloads", async () => {
  for (const value of [0.1, NaN, Infinity, 2 ** 53, 1e21]) {
    for (const payload of [{ n: value }, { l: [{ n: value }] }])
      await assert.rejects(gate().ask("x", payload), TypeError);
  }
  for (const text of ["1e3", ".5", "1.", "01", "+1", "", "NaN", "0x1"]) assert.throws(() => decimal(text), TypeError);
  for (const [value, text] of [
    [decimal("0.10"), "0.10"],
    [10n ** 30n, `1${"0".repeat(30)}`],
    [-5, "-5"],
    [true, "true"],
    [null, "null"],
  ]) {
    assert.equal(toJson(value), text);
  }
  let deep = {};
  for (let n = 0; n < 70; n += 1) deep = { a: deep };
  for (const payload of [
    "[]",
    "{",
    '{"a":NaN}',
    '{"s":"\ud83d"}',
    { s: "\ud83d" },
    { d: new Date() },
    { f() {} },
    null,
    [],
    deep,
    `${'{"a":'.repeat(63)}{}${"}".repeat(63)}`,
  ]) {
    await assert.rejects(gate().sign("x", payload));
  }
  for (const id of ["a/b", "x.error", "x\n", "", "é"]) await assert.rejects(gate().sign("x", {}, { id }));
  for (const action of ["", "X", "a b", "a|b", "a\n"]) await assert.rejects(gate().sign(action, {}));
  await assert.rejects(gate().sign("x", {}, { causality: { a: "x".repeat(8200) } }));
  assert.deepEqual(fs.readdirSync(path("in")), ["trend-bot"]);
});

test("tools say it in words", async () => {
  const rows = [{ check_name: "max_position", value: "3", limit: "1", unit: "usd", reason: "too large" }];
  const Rejected = { checks_failed: rows, checks_passed: [{ check_name: "quiet" }], headroom: { max_size: "0.5" } };
  play((name) => answer(name, { status: "error", error: { code: "CHECKS_FAILED", message: "m" }, data: { Rejected } }));
  const { call } = tools(gate(), ["trading"]).find(({ name }) => name === "submit_order");
  const said = await call('{"size": 0.10}');
  assert.ok(
    said.startsWith("refused, max_position: too large (3 usd, limit 1); a size of at most 0.5 would pass\n\n{"),
    said,
  );
  assert.ok(!said.includes("quiet"));
  assert.match(taken[0].data, /\{"size":0\.10\}/);
  assert.match(await call({ size: 0.1 }), /binary float/);
  assert.equal(taken.length, 1);
  assert.throws(() => tools(gate(), ["tradign"]), TypeError);
});
