// Keys, signatures, JSON and answers, as docs/wire.md of spoolgate says. Nothing here touches the spool.
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

const REQUEST_BYTES_MAX = 10_000_000;
const CAUSALITY_BYTES_MAX = 8192;
const DEPTH_MAX = 64;
const ID = /^(?!.*\.(error|decision)$)[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}$/;
const ACTION = /^[a-z._]{1,64}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;
export const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?$/;
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/gs;
const WHITE_SPACE = /("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+/gs;
const OUTCOMES = new Map([
  ["success", "done"],
  ["error", "refused"],
  ["requires_approval", "held"],
  ["rate_limited", "rate_limited"],
]);
// Before the 32 bytes of an Ed25519 seed, this makes them a PKCS #8 key (RFC 8410).
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A key file that cannot be used. No message holds anything of the secret. */
export class KeyFileError extends Error {}

/** The key of a principal. The secret is in no property, message or representation: WebCrypto keeps it. */
export class Key {
  #algorithm;
  #key;

  constructor(path) {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const data = Buffer.alloc(4097);
    let length = 0;
    try {
      const { mode } = fstatSync(fd);
      if ((mode & constants.S_IFMT) !== constants.S_IFREG)
        throw new KeyFileError(`key file \`${path}\` is not a regular file`);
      const rights = (mode & 0o7777).toString(8).padStart(4, "0");
      if (mode & 0o077)
        throw new KeyFileError(`key file \`${path}\` has mode ${rights}, so others can use it: chmod 600 it`);
      for (let got; length < data.length && (got = readSync(fd, data, length, data.length - length, null)) > 0;)
        length += got;
    } finally {
      closeSync(fd);
    }
    let parts;
    try {
      const text = utf8.decode(data.subarray(0, length));
      // A name twice is not noticed by JSON.parse.
      parts = length <= 4096 && members(text).length === 4 ? JSON.parse(text) : undefined;
    } catch {
      // Thrown below: a parser's message quotes the text.
    }
    const names = Object.keys(parts ?? {})
      .sort()
      .join();
    if (
      names !== "algorithm,key_id,principal,secret" ||
      Object.values(parts).some((part) => typeof part !== "string")
    ) {
      throw new KeyFileError(
        `\`${path}\` is not a key file; use one that \`spoolgate keys add NAME --out FILE\` wrote`,
      );
    }
    if (!/^[0-9a-f]{64}$/.test(parts.secret))
      throw new KeyFileError(`the secret in \`${path}\` is not 64 lower-case hex digits`);
    const secret = Buffer.from(parts.secret, "hex");
    const take = (format, bytes, kind) => crypto.subtle.importKey(format, bytes, kind, false, ["sign"]);
    if (parts.algorithm === "hmac-sha256") this.#key = take("raw", secret, { name: "HMAC", hash: "SHA-256" });
    else if (parts.algorithm === "ed25519") this.#key = take("pkcs8", Buffer.concat([PKCS8, secret]), "Ed25519");
    else throw new KeyFileError(`the algorithm of \`${path}\` is unknown to this version`);
    this.#key.catch(() => {}); // it is reported where it is awaited
    this.#algorithm = parts.algorithm;
    this.principal = parts.principal;
    this.keyId = parts.key_id;
  }

  /** The signature of a text, in the form that an envelope has. */
  async sign(message) {
    const own = this.#algorithm === "ed25519";
    const signed = Buffer.from(
      await crypto.subtle.sign(own ? "Ed25519" : "HMAC", await this.#key, Buffer.from(message)),
    );
    return own ? `ed25519:${signed.toString("base64")}` : signed.toString("hex");
  }
}

/** A number that keeps its digits: `decimal("0.10")`. */
export class Decimal {
  constructor(text) {
    if (typeof text !== "string" || !NUMBER.test(text))
      throw new TypeError(`${String(text)} is not the text of a number, such as "0.10"`);
    this.text = text;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }
}

export const decimal = (text) => new Decimal(text);

/** Minified JSON. Numbers are whole ones, bigints and decimals: a binary float is a TypeError. */
export function toJson(value, depth = 1) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new TypeError("a lone surrogate is no text");
    return JSON.stringify(value);
  }
  if (typeof value === "bigint" || value instanceof Decimal) return value.toString();
  if (typeof value === "number") {
    if (Number.isSafeInteger(value)) return String(value);
    throw new TypeError(`${value} is a binary float, whose digits are not exact; use a text or decimal("...")`);
  }
  if (depth > DEPTH_MAX) throw new RangeError(`more than ${DEPTH_MAX} nested objects and lists`);
  if (Array.isArray(value)) return `[${value.map((inner) => toJson(inner, depth + 1)).join()}]`;
  if (typeof value !== "object" || ![Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    throw new TypeError(`a ${typeof value} has no form in JSON`);
  }
  const given = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return `{${given.map(([name, inner]) => `${toJson(name)}:${toJson(inner, depth + 1)}`).join()}}`;
}

/** An object as minified text; text keeps every byte but the white space between its tokens. */
function object(value, what) {
  if (typeof value !== "string") {
    if (value === null || typeof value !== "object" || Array.isArray(value))
      throw new TypeError(`${what} is not an object`);
    return toJson(value, 2);
  }
  const parsed = JSON.parse(value);
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed))
    throw new TypeError(`${what} is not an object`);
  if (!value.isWellFormed()) throw new TypeError("a lone surrogate is no text");
  let depth = 1;
  for (const [token] of value.matchAll(TOKENS)) {
    depth += { "{": 1, "[": 1, "}": -1, "]": -1 }[token] ?? 0;
    if (depth > DEPTH_MAX) throw new RangeError(`${what} has too many nested objects and lists`);
  }
  return value.replace(WHITE_SPACE, "$1");
}

/** The members of an object's text as [name, text of the value]. */
function members(text) {
  const found = [];
  let [depth, name, start] = [0, undefined, 0];
  for (const { 0: token, index } of text.matchAll(TOKENS)) {
    if (depth === 1 && token.startsWith('"') && name === undefined) name = JSON.parse(token);
    else if (depth === 1 && token === ":") start = index + 1;
    else if (depth === 1 && (token === "," || token === "}") && name !== undefined) {
      found.push([name, text.slice(start, index)]);
      name = undefined;
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return found;
}

const sha256 = async (text) => Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(text))).toString("hex");

async function signingString(id, at, action, payload, causality) {
  const caused = causality === undefined ? "" : `|${await sha256(causality)}|-`;
  return `${id}|${at}|${action}|${await sha256(payload)}${caused}`;
}

/** A signed request. `bytes` is all that is needed to send it again, also in another process. */
export class Request {
  constructor(parts) {
    Object.assign(this, parts);
    for (const [what, text, form] of [
      ["id", this.id, ID],
      ["time", this.at, TIME],
      ["action", this.action, ACTION],
    ]) {
      if (typeof text !== "string" || !form.test(text))
        throw new TypeError(`${JSON.stringify(text)} is not the ${what} of a request`);
    }
  }

  /** Its name in the spool, and that of its answer. */
  get fileName() {
    return `${/^[-_]/.test(this.id) ? "+" : ""}${this.id}.json`;
  }

  /** Its age by this machine's clock, in seconds. */
  get ageS() {
    return (Date.now() - Date.parse(`${this.at.slice(0, 19)}Z`)) / 1000;
  }

  /** The request of bytes that were kept. */
  static async parse(bytes) {
    const text = utf8.decode(bytes);
    const whole = JSON.parse(text);
    const parts = Object.fromEntries(members(text));
    const { id, timestamp: at, action, signature } = whole;
    const payload = object(parts.payload, "the payload");
    const causality = parts.causality === undefined ? undefined : object(parts.causality, "the causality");
    const string = await signingString(id, at, action, payload, causality);
    return new Request({ id, at, action, payload, causality, signingString: string, signature, bytes });
  }
}

/** Signs a request. By default its id is random and its time is now; nothing is sent. */
export async function sign(key, action, payload, { id, causality, at } = {}) {
  id ??= Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
  at ??= new Date().toISOString();
  const body = object(payload, "the payload");
  const caused = causality === undefined ? undefined : object(causality, "the causality");
  if (caused !== undefined && Buffer.byteLength(caused) > CAUSALITY_BYTES_MAX) {
    throw new RangeError(`the causality has more than ${CAUSALITY_BYTES_MAX} bytes`);
  }
  const request = new Request({ id, at, action, payload: body, causality: caused });
  request.signingString = await signingString(id, at, action, body, caused);
  request.signature = await key.sign(request.signingString);
  const member = caused === undefined ? "" : `,"causality":${caused}`;
  request.bytes = Buffer.from(
    `{"id":"${id}","timestamp":"${at}","action":"${action}","payload":${body},` +
      `"source":${JSON.stringify(key.principal)},"signature":"${request.signature}"${member}}`,
  );
  if (request.bytes.length > REQUEST_BYTES_MAX)
    throw new RangeError(`the request has more than ${REQUEST_BYTES_MAX} bytes`);
  return request;
}

/** Outcome and content of an answer; undefined if the bytes are none yet. */
export function readAnswer(bytes) {
  try {
    const whole = JSON.parse(utf8.decode(bytes));
    const outcome = whole && !Array.isArray(whole) ? OUTCOMES.get(whole.status) : undefined;
    return outcome && { outcome, whole };
  } catch {
    return undefined;
  }
}

/** A frame of the socket. */
export function frame(content) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}
