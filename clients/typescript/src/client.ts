import { type Credentials, type Door } from "./exchange.js";
import { type Reading } from "./outcome.js";
import * as reading from "./reading.js";
import { type Request } from "./request.js";
import { type Clock, CLOCK } from "./retry.js";
import * as writing from "./writing.js";

/** How a client reaches its stack. */
export interface ClientOptions {
  /** The stack's output `SettlementsApiUrl`. */
  readonly apiUrl: string;
  /** By default the environment's `AWS_REGION`. */
  readonly region?: string;
  /**
   * Credentials, or a function that is asked before each call, such as AWS's `fromNodeProviderChain()`. By default the
   * environment's `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, as Lambda sets them.
   */
  readonly credentials?: Credentials | (() => Promise<Credentials>);
  /** Sends a signed call; by default the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** The time; a test may have its own. */
  readonly clock?: Clock;
}

/** How long a call is repeated after a lost answer, 429, or a status from 500 up: 60 s by default, 0 for one try. */
export interface Tries {
  readonly seconds?: number;
}

const SECONDS = 60;

/**
 * The client of one stack, over its HTTP API. A call of its role needs the policy `StarterPolicyArn` to start and to
 * cancel, and `ReaderPolicyArn` to read.
 */
export class Client {
  readonly #door: Door;
  readonly #clock: Clock;

  constructor(options: ClientOptions) {
    const { apiUrl, region = process.env["AWS_REGION"], credentials = ofEnvironment } = options;
    if (region === undefined) {
      throw new TypeError("region: neither an option nor AWS_REGION names it");
    }
    this.#clock = options.clock ?? CLOCK;
    this.#door = {
      url: apiUrl.replace(/\/+$/, ""),
      region,
      credentials: typeof credentials === "function" ? credentials : async () => credentials,
      fetch: options.fetch ?? fetch,
    };
  }

  /**
   * Start a payment, once for its key; return its reading, or undefined: it is claimed and goes on, so `wait` for it.
   *
   * `wait` is the number of seconds, from 1 to 20, that a call may wait for the end. Each try sends the same request.
   * Throws Refused: nothing was written. Throws Unknown: call again with the same request.
   */
  async start(request: Request, options: Tries & { readonly wait?: number } = {}): Promise<Reading | undefined> {
    return writing.start(this.#write(request, options), options.wait ?? 0);
  }

  /**
   * Cancel a payment that was started with `request`, before its hold or in review; return it as it is then.
   *
   * `seen` is the sequence of the reading that was decided on: another one is not cancelled. Throws NotCancellable if
   * it is too late, SequenceChanged, IdempotencyConflict and NotFound. Throws Unknown: call again.
   */
  async cancel(request: Request, options: Tries & { readonly seen?: number } = {}): Promise<Reading> {
    return writing.cancel(this.#write(request, options), options.seen);
  }

  /**
   * Return a settlement as it is now; with `wait`, from 1 to 20 seconds, as soon as its sequence is above `after`.
   *
   * When that time is over it returns the settlement as it is. Throws NotFound, or Unavailable.
   */
  async get(
    key: string,
    options: Tries & { readonly after?: number; readonly wait?: number } = {},
  ): Promise<Reading> {
    const { after, wait, seconds = SECONDS } = options;
    const query = wait === undefined ? {} : { after: after ?? 0, wait };
    return reading.get(this.#door, this.#clock, key, query, seconds);
  }

  /**
   * Wait for a sequence above `after`; without it, for a final status or LIMBO.
   *
   * After `seconds`, 60 by default, it returns the settlement as it is: look at it. Throws NotFound if the key is not
   * claimed by then, or Unavailable if the last call had no answer.
   */
  async wait(key: string, options: { readonly seconds?: number; readonly after?: number } = {}): Promise<Reading> {
    return reading.wait(this.#door, this.#clock, key, options.seconds ?? SECONDS, options.after);
  }

  #write(request: Request, { seconds = SECONDS }: Tries) {
    return { door: this.#door, clock: this.#clock, request, seconds };
  }
}

async function ofEnvironment(): Promise<Credentials> {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN } = process.env;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw new TypeError("credentials: neither an option nor the environment has them");
  }
  return { accessKeyId, secretAccessKey, sessionToken: AWS_SESSION_TOKEN };
}
