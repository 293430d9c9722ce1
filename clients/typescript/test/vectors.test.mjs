// The published vectors (tests/vectors/wire), which the gate and every client agree on.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import { Gate, Held, Key, RateLimited, Refused, Request, sign } from "../src/index.js";
import { frame, readAnswer } from "../src/wire.js";

const vectors = JSON.parse(readFileSync(new URL("../../../tests/vectors/wire/v1.json", import.meta.url), "utf8"));
const folder = mkdtempSync(`${tmpdir()}/spoolgate-`);
after(() => rmSync(folder, { recursive: true }));
const keys = Object.fromEntries(
  vectors.keys.map(({ name, key_file, principal }) => {
    writeFileSync(`${folder}/${name}`, key_file, { mode: 0o600 });
    const key = new Key(`${folder}/${name}`);
    assert.equal(key.principal, principal);
    return [name, key];
  }),
);

test("requests", async () => {
  for (const vector of vectors.requests) {
    const { id, timestamp: at, action } = JSON.parse(vector.sent);
    const made = await sign(keys[vector.key], action, vector.payload, { id, at, causality: vector.causality });
    assert.equal(made.payload, vector.payload_min, vector.name);
    assert.equal(made.causality, vector.causality_min, vector.name);
    assert.equal(made.signingString, vector.signing_string, vector.name);
    assert.equal(made.signature, vector.signature, vector.name);
    assert.equal(made.fileName, vector.file_name, vector.name);
    let whole = vector.sent.replace(vector.payload, () => vector.payload_min);
    if (vector.causality !== undefined) whole = whole.replace(vector.causality, () => vector.causality_min);
    assert.equal(made.bytes.toString(), whole, vector.name);
    assert.deepEqual(await Request.parse(made.bytes), made, vector.name);
    const again = await Request.parse(Buffer.from(vector.sent));
    assert.equal(again.signingString, vector.signing_string, vector.name);
  }
});

test("frames", () => {
  for (const { hex, message } of vectors.frames) assert.equal(frame(Buffer.from(message)).toString("hex"), hex);
});

test("answers", async () => {
  const gate = new Gate(folder, { key: keys.shared });
  const request = await gate.sign("order.submit", {});
  for (const vector of vectors.answers) {
    const read = readAnswer(Buffer.from(vector.bytes));
    assert.equal(read?.outcome ?? "none", vector.outcome, vector.name);
    if (vector.outcome === "none") continue;
    if (vector.outcome === "done") {
      const body = gate.outcome(read, request);
      if (vector.order_id) assert.equal(body.order_id, vector.order_id, vector.name);
      continue;
    }
    const kind = { refused: Refused, held: Held, rate_limited: RateLimited }[vector.outcome];
    assert.throws(
      () => gate.outcome(read, request),
      (no) => {
        assert.equal(no.constructor, kind, vector.name);
        assert.equal(no.root.name, vector.root, vector.name);
        assert.equal(no.maxSize?.text, vector.max_size, vector.name);
        assert.equal(no.retry, vector.retry, vector.name);
        assert.equal(no.holdId || undefined, vector.hold_id, vector.name);
        return true;
      },
    );
  }
});
