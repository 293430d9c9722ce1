import type { Calls } from "./calls.js";

export * from "./calls.js";

export type Payload = string | object;
export interface Options {
  /** By default a random one. */
  id?: string;
  causality?: Payload;
}

/** A key file that cannot be used. No message holds anything of the secret. */
export declare class KeyFileError extends Error {}
/** The key of a principal. The secret is in no property, message or representation. */
export declare class Key {
  constructor(path: string);
  readonly principal: string;
  readonly keyId: string;
  sign(message: string): Promise<string>;
}
/** A number that keeps its digits: `decimal("0.10")`. */
export declare class Decimal {
  constructor(text: string);
  readonly text: string;
  toString(): string;
}
export declare function decimal(text: string): Decimal;

/** A signed request. `bytes` is all that is needed to send it again, also in another process. */
export declare class Request {
  readonly id: string;
  readonly at: string;
  readonly action: string;
  readonly payload: string;
  readonly causality?: string;
  readonly signingString: string;
  readonly signature: string;
  readonly bytes: Uint8Array;
  readonly fileName: string;
  readonly ageS: number;
  static parse(bytes: Uint8Array): Promise<Request>;
}
export declare function sign(
  key: Key,
  action: string,
  payload: Payload,
  options?: Options & { at?: string },
): Promise<Request>;

/** What refused a request first of all: the check that failed, or the code if no check did. */
export interface Root {
  name: string;
  message: string;
  value?: string | null;
  limit?: string | null;
  unit?: string;
}
export declare class GateError extends Error {
  readonly request: Request;
}
/** Nothing was handed in, and the id is not used up. */
export declare class NotSent extends GateError {}
/** No answer came in time: the gate may have decided the request, or may still decide it. */
export declare class Unknown extends GateError {
  /** Sends the same bytes again. What was decided is answered again, and nothing is done twice. */
  again(): Promise<unknown>;
}
/** The gate refused. */
export declare class Refused extends GateError {
  readonly code: string;
  readonly reason: string;
  readonly retry: "same_id" | "new_id" | "after" | "never";
  readonly retryAfterMs?: number;
  readonly faults: Array<{ pointer: string; got: string; expected: string; example?: unknown }>;
  readonly root: Root;
  readonly maxSize?: Decimal;
  readonly data: Record<string, unknown>;
  readonly answer: Record<string, unknown>;
}
/** A rule holds the request until a person decides. */
export declare class Held extends Refused {
  readonly holdId: string;
  readonly expiresAt: string;
  /** Waits for the final answer, and returns or throws it; throws itself again if none came. */
  wait(seconds: number): Promise<unknown>;
}
/** Too much at a time. The request was not decided, and its id is not used up. */
export declare class RateLimited extends Refused {
  /** Waits as long as the gate asks, then sends the same bytes, or the payload under a fresh id if they are too old. */
  again(): Promise<unknown>;
}

export interface GateOptions {
  /** The key file of the principal that signs; only its owner may have access to it. */
  key: string | Key;
  /** The principal whose own spool takes the requests (`spool:` in principals.yaml); without it the flat spool. */
  agent?: string;
  /** The path of the gate's socket, in place of its home. */
  socket?: string;
  /** Seconds to wait for an answer. */
  wait?: number;
}
/** A gate. Each method signs a request, waits for the answer and returns its body; a refusal is thrown. */
export declare class Gate extends Calls {
  constructor(home: string | undefined, options: GateOptions);
  readonly key: Key;
  wait: number;
  sign(action: string, payload: Payload, options?: Options): Promise<Request>;
  send(request: Request | Uint8Array): Promise<unknown>;
  ask(action: string, payload: Payload, options?: Options): Promise<unknown>;
}

export interface Tool {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
  call(given?: string | object): Promise<string>;
}
export declare const GROUPS: string[];
export declare function tools(gate: Gate, groups?: string[]): Tool[];
