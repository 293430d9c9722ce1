// Signs each line of standard input, a JSON object {payload, causality?}, as text. For tests.
// usage: node sign_many.mjs KEYFILE
import { readFileSync } from "node:fs";
import { Key, sign } from "../src/index.js";

const key = new Key(process.argv[2]);
// Not with readline, which also ends lines at U+2028.
for (const line of readFileSync(0, "utf8").split("\n").slice(0, -1)) {
  const { payload, causality } = JSON.parse(line);
  process.stdout.write(`${(await sign(key, "order.submit", payload, { causality })).bytes}\n`);
}
