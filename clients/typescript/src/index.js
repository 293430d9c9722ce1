// A gate as its clients see it: each call is a signed request, and each refusal an error that is thrown.
import { readFileSync } from "node:fs";
import { BODIES, Calls } from "./calls.js";
import { NothingSent, Socket, Spool, now, sleep } from "./spool.js";
import { Decimal, Key, KeyFileError, NUMBER, Request, decimal, sign } from "./wire.js";

export { Decimal, Key, KeyFileError, Request, decimal, sign };

const FRESH_S = 240; // a gate refuses requests that are older than 300 s by its own clock
const TOOLS = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));
export const GROUPS = [...new Set(TOOLS.flatMap((tool) => tool.groups))].sort();

const dict = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});
const rowsOf = (value) => (Array.isArray(value) ? value.filter((row) => row !== null && typeof row === "object") : []);

/** An error of a request. Keep `request.bytes` to send it again. */
export class GateError extends Error {
  #gate;

  constructor(message, request, gate) {
    super(`${request.action} \`${request.id}\`: ${message}`);
    this.name = new.target.name;
    this.request = request;
    this.#gate = gate;
  }

  get gate() {
    return this.#gate;
  }
}

/** Nothing was handed in, and the id is not used up. */
export class NotSent extends GateError {}

/** No answer came in time: the gate may have decided the request, or may still decide it. */
export class Unknown extends GateError {
  /** Sends the same bytes again. What was decided is answered again, and nothing is done twice. */
  again() {
    return this.gate.send(this.request);
  }
}

/** The gate refused. `retry` says what may be sent now: `same_id`, `new_id`, `after` or `never`. */
export class Refused extends GateError {
  #last;

  constructor(answer, request, gate) {
    const error = dict(answer.whole.error);
    super(`${error.code}: ${error.message}`, request, gate);
    this.answer = answer.whole;
    this.data = dict(answer.whole.data);
    this.code = String(error.code);
    this.reason = String(error.message);
    this.retry = String(this.data.retry ?? "never");
    const waitMs = this.data.retry_after_ms ?? this.data.retryAfterMs;
    this.retryAfterMs = Number.isSafeInteger(waitMs) ? waitMs : undefined;
    this.faults = rowsOf(this.data.faults);
    // What an adapter of the operator answers is here too, so nothing is taken for granted: a decision must be reported.
    const body = dict(this.data.Rejected ?? this.data.Held);
    const rows = rowsOf(body.checks_failed).filter((one) => typeof one.check_name === "string");
    const row = rows.find((one) => !("follows_from" in one)) ?? rows[0];
    const { check_name: name = this.code, reason: message = this.reason, value, limit, unit } = row ?? {};
    this.root = { name, message: message ?? this.reason, value, limit, unit };
    const size = dict(body.headroom).max_size;
    this.maxSize = typeof size === "string" && NUMBER.test(size) ? decimal(size) : undefined;
    this.#last = answer;
  }

  get last() {
    return this.#last;
  }
}

/** A rule holds the request until a person decides, at the latest at `expiresAt`. */
export class Held extends Refused {
  constructor(answer, request, gate) {
    super(answer, request, gate);
    this.holdId = String(dict(this.data.Held).hold_id ?? "");
    this.expiresAt = String(dict(this.data.Held).expires_at ?? "");
  }

  /** Waits for the final answer, and returns or throws it; throws itself again if none came. */
  wait(seconds) {
    return this.gate.final(this, now() + seconds * 1000);
  }
}

/** Too much at a time. The request was not decided, and its id is not used up. */
export class RateLimited extends Refused {
  #next;

  /** Waits as long as the gate asks, then sends the same bytes, or the payload under a fresh id if they are too old. */
  async again() {
    await sleep(this.retryAfterMs ?? 1000);
    const { action, payload, causality, ageS } = this.request;
    // Chosen once: if this falls silent, a second request under a third id could be done beside it.
    const isFresh = this.retry === "after" && ageS < FRESH_S;
    this.#next ??= isFresh ? Promise.resolve(this.request) : this.gate.sign(action, payload, { causality });
    return this.gate.send(await this.#next);
  }
}

/** A gate. Each method signs a request, waits for the answer and returns its body; a refusal is thrown. */
export class Gate extends Calls {
  #door;

  /**
   * @param home the gate's home, for its spool; undefined for the socket
   * @param options `key`: the key file of the principal that signs; `agent`: the principal whose own spool takes the requests
   *   (`spool:` in principals.yaml), without it the flat spool; `socket`: its path; `wait`: seconds to wait for an answer
   */
  constructor(home, { key, agent, socket, wait = 60 }) {
    super();
    this.key = key instanceof Key ? key : new Key(key);
    this.wait = wait;
    if ((home === undefined) === (socket === undefined))
      throw new TypeError("name either the home of the gate or its socket");
    this.#door = home === undefined ? new Socket(socket) : new Spool(home, agent);
  }

  /** Signs a request without sending it. Keep its `bytes` to send them again after a crash of your own. */
  sign(action, payload, { id, causality } = {}) {
    return sign(this.key, action, payload, { id, causality });
  }

  /** Sends a signed request, or the bytes of one, and returns the body of its answer. */
  async send(request) {
    const signed = request instanceof Request ? request : await Request.parse(request);
    let answer;
    try {
      answer = await this.#door.ask(signed, now() + this.wait * 1000);
    } catch (error) {
      throw error instanceof NothingSent ? new NotSent(error.message, signed, this) : error;
    }
    if (answer) return this.outcome(answer, signed);
    const said = `no answer within ${this.wait} s; does a gate run? The same bytes may be sent again: again()`;
    throw new Unknown(said, signed, this);
  }

  /** Signs and sends a request of any action. */
  async ask(action, payload, options) {
    return this.send(await this.sign(action, payload, options));
  }

  /** Waits for the final answer to a held request. */
  async final(held, deadline) {
    const answer = await this.#door.nextAnswer(held.request, held.last, deadline).catch(() => undefined);
    if (!answer) throw held;
    return this.outcome(answer, held.request);
  }

  /** The body of an answer, or what it throws. */
  outcome(answer, request) {
    if (answer.outcome === "done") {
      const { data } = answer.whole;
      const name = BODIES[request.action];
      return name && data && Object.hasOwn(data, name) ? data[name] : data;
    }
    throw new ({ held: Held, rate_limited: RateLimited }[answer.outcome] ?? Refused)(answer, request, this);
  }
}

/** The tools of some groups, or all: `[{name, description, input_schema, call}]`. `call` takes the arguments as an object or as JSON
 *  text, of which every digit is kept, and returns a text for the model, also when the gate refuses. */
export function tools(gate, groups) {
  const unknown = groups?.find((group) => !GROUPS.includes(group));
  if (unknown !== undefined) throw new TypeError(`there is no group ${unknown}; the groups are ${GROUPS.join(", ")}`);
  const offered = TOOLS.filter((tool) => !groups || tool.groups.some((group) => groups.includes(group)));
  return offered.map(({ name, action, description, input_schema }) => {
    const call = async (given = "{}") => {
      try {
        return done(await gate.ask(action, given || "{}"));
      } catch (error) {
        return failed(error);
      }
    };
    return { name, description, input_schema, call };
  });
}

function done(body) {
  const wouldBe = body?.would_be?.status;
  if (wouldBe) return text(`dry run: the answer would be ${wouldBe}; nothing was done`, body);
  return text(body?.order_id ? `accepted: ${body.order_id}` : "the gate answered", body);
}

function failed(error) {
  if (error instanceof Held)
    return text(`held as ${error.holdId} until ${error.expiresAt}: a person decides; nothing was done yet`, error.data);
  if (error instanceof RateLimited)
    return text(`not decided, too much at a time: wait ${error.retryAfterMs ?? 1000} ms`, error.data);
  if (error instanceof Refused) {
    const { name, message, value, limit, unit } = error.root;
    const measured = value != null && limit != null ? ` (${value} ${unit}, limit ${limit})` : "";
    const size = error.maxSize?.text;
    const room =
      size === undefined ? "" : /[1-9]/.test(size) ? `; a size of at most ${size} would pass` : "; no size would pass";
    return text(`refused, ${name}: ${message}${measured}${room}`, error.data);
  }
  if (error instanceof Unknown) {
    return "no answer came: it is unknown whether it was done. Do not repeat it; look at the orders and the portfolio first";
  }
  if (error instanceof NotSent) return `not sent, nothing was done: ${error.message}`;
  if (![TypeError, RangeError, SyntaxError].some((kind) => error instanceof kind)) throw error;
  return `not sent, nothing was done: the arguments are wrong: ${error.message}`;
}

function text(said, data) {
  return data == null || Object.keys(data).length === 0 ? said : `${said}\n\n${JSON.stringify(loud(data))}`;
}

/** Leaves out checks that passed without a word. */
function loud(data) {
  if (Array.isArray(data)) return data.map(loud);
  if (data === null || typeof data !== "object") return data;
  const { checks_passed: passed, ...rest } = data;
  const left = Array.isArray(passed) ? passed.filter((row) => row?.reason || row?.warning) : passed;
  const found = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, loud(part)]));
  return left === undefined || left.length === 0 ? found : { ...found, checks_passed: left };
}
