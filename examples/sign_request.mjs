#!/usr/bin/env node
// Sign a request with nothing but Node itself.
//
// usage: node sign_request.mjs KEYFILE ACTION PAYLOAD.json|- [ID [CAUSALITY.json]]
//
// KEYFILE is what `spoolgate keys add NAME --out KEYFILE` wrote, shared (hmac-sha256) or the agent's own (--ed25519).
// PAYLOAD is a file with a JSON object, or - for standard input; ID is a random one if it is not given. CAUSALITY is a
// file with a JSON object, signed along: which task asks and what caused it. Prints the signed envelope; drop it into
// spool/in as <id>.json (write it as <id>.tmp, then rename it), or:
//
//     echo '{}' | node sign_request.mjs bot.key portfolio.get - | spoolgate handle -
import { createHash, createHmac, createPrivateKey, randomBytes, sign } from "node:crypto";
import { readFileSync } from "node:fs";

const USAGE = "usage: node sign_request.mjs KEYFILE ACTION PAYLOAD.json|- [ID [CAUSALITY.json]]";
// Before the 32 bytes of an Ed25519 seed, this makes them a PKCS #8 key (RFC 8410).
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

function signature(key, message) {
  const secret = Buffer.from(key.secret, "hex");
  if (key.algorithm === "hmac-sha256") return createHmac("sha256", secret).update(message).digest("hex");
  if (key.algorithm !== "ed25519") throw new Error(`unknown algorithm ${key.algorithm}`);
  const own = createPrivateKey({ key: Buffer.concat([PKCS8, secret]), format: "der", type: "pkcs8" });
  return "ed25519:" + sign(null, Buffer.from(message), own).toString("base64");
}

function minified(text) {
  // White space between tokens goes, all else stays as it was written. JSON.stringify(JSON.parse(text)) would turn 0.10
  // into 0.1 and lose digits of long numbers: good for a signature, but no longer the order that somebody wrote.
  JSON.parse(text);
  return text.replace(/("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+/g, "$1");
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

function envelope(key, action, payload, id, causality) {
  const timestamp = new Date().toISOString();
  const caused = causality === undefined ? "" : `|${sha256(causality)}|-`;
  const signed = signature(key, `${id}|${timestamp}|${action}|${sha256(payload)}${caused}`);
  const member = causality === undefined ? "" : `,"causality":${causality}`;
  const [i, t, a, s, g] = [id, timestamp, action, key.principal, signed].map((part) => JSON.stringify(part));
  return `{"id":${i},"timestamp":${t},"action":${a},"payload":${payload},"source":${s},"signature":${g}${member}}\n`;
}

try {
  const [keyFile, action, payloadFile, given, causalityFile, ...more] = process.argv.slice(2);
  if (payloadFile === undefined || more.length > 0) throw new Error(USAGE);
  const id = given ?? randomBytes(16).toString("hex");
  const key = JSON.parse(readFileSync(keyFile, "utf8"));
  // Bytes that are not UTF-8 are refused: to replace them would sign something else.
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const read = (file) => minified(strict.decode(readFileSync(file)));
  const payload = read(payloadFile === "-" ? 0 : payloadFile);
  const causality = causalityFile === undefined ? undefined : read(causalityFile);
  process.stdout.write(envelope(key, action, payload, id, causality));
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
