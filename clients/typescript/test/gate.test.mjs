// The client against a real gate, which `cargo test --test it clients::` prepares and names in the environment.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { Gate, Held, Refused, Unknown, decimal, tools } from "../src/index.js";

const { SPOOLGATE: program, SPOOLGATE_HOME: home, SPOOLGATE_KEY_FILE: key } = process.env;
const skip = home ? false : "needs a gate: cargo test --test it clients::";
const gate = skip ? undefined : new Gate(home, { key });
const ORDER = {
  strategy: "trend",
  symbol: "BTC-USD",
  side: "buy",
  order_type: "limit",
  price: 6760,
  stop_price: "6600",
  thesis_slug: "btc-range-long",
  planned_entry: decimal("6760.00"),
  planned_stop: 6600n,
};

test("orders", { skip }, async () => {
  await assert.rejects(gate.submitOrder({ ...ORDER, size: decimal("3.00") }), (no) => {
    assert.deepEqual(
      [no.constructor, no.code, no.root.name, no.retry],
      [Refused, "CHECKS_FAILED", "max_order_value", "new_id"],
    );
    return Number(no.maxSize.text) > 0 && Number(no.maxSize.text) < 1;
  });
  const request = await gate.sign("order.submit", { ...ORDER, size: decimal("0.010") }, { id: "_V1StGXR8" });
  const done = await gate.send(request);
  assert.deepEqual(await gate.send(request.bytes), done);
  assert.equal((await gate.orders()).filter((order) => order.order_id === done.order_id).length, 1);

  // A gate that stands still, then the same bytes: done once.
  const hasty = new Gate(home, { key: gate.key, wait: 0.2 });
  const pid = Number(process.env.SPOOLGATE_PID);
  process.kill(pid, "SIGSTOP");
  const lost = await hasty.cancelOrder({ order_id: done.order_id }).catch((error) => error);
  process.kill(pid, "SIGCONT");
  assert.ok(lost instanceof Unknown, String(lost));
  hasty.wait = 60;
  assert.deepEqual(await lost.again(), await lost.again());
  assert.deepEqual(await gate.orders(), []);
});

test("a hold", { skip }, async () => {
  const order = { ...ORDER, size: "0.025", thesis_slug: "btc-dip-long" };
  const held = await gate.submitOrder(order).catch((error) => error);
  assert.ok(held instanceof Held, String(held));
  execFileSync(program, ["--home", home, "approvals", "deny", held.holdId, "--reason", "no"]);
  await assert.rejects(held.wait(60), (no) => no.code === "APPROVAL_DENIED");
});

test("an id that was used, and a malformed payload", { skip }, async () => {
  await gate.ask("portfolio.get", {}, { id: "used" });
  await assert.rejects(
    gate.ask("orders.list", {}, { id: "used" }),
    (no) => no.code === "REQUEST_ID_CONFLICT" && no.retry === "new_id",
  );
  await assert.rejects(gate.ask("market.get", '{ "n": 0.10 }'), (no) => {
    assert.deepEqual(no.faults.map((fault) => fault.pointer).sort(), ["/payload/n", "/payload/symbol"]);
    return no.code === "MALFORMED_PAYLOAD";
  });
});

test("an own spool, an own key, the socket and tools", { skip }, async () => {
  const own = new Gate(home, { key: process.env.SPOOLGATE_AGENT_KEY_FILE, agent: "research-bot" });
  const both = await Promise.all([own.portfolio(), own.marketData({ symbol: "BTC-USD" })]);
  assert.equal(both[0].equity, "5000");
  const other = new Gate(home, { key: process.env.SPOOLGATE_OWN_KEY_FILE });
  const call = Object.fromEntries(tools(other, ["trading"]).map((tool) => [tool.name, tool.call]));
  assert.match(await call.portfolio(), /"equity":"5000"/);
  assert.match(await call.market_data({ symbol: "NONE" }), /^refused, NOT_FOUND/);
  const socket = new Gate(undefined, { socket: process.env.SPOOLGATE_SOCKET, key });
  const request = await socket.sign("portfolio.get", {});
  assert.deepEqual(await socket.send(request), await socket.send(request));
});
