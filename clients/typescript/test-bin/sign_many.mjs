// Signs each line of standard input, a JSON object {payload, causality?}, as text. For tests.
// usage: node sign_many.mjs KEYFILE
import { createInterface } from "node:readline";
import { Key, sign } from "../src/index.js";

const key = new Key(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  const { payload, causality } = JSON.parse(line);
  process.stdout.write(`${(await sign(key, "order.submit", payload, { causality })).bytes}\n`);
}
