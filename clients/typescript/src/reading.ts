import { InvalidRequest, NotFound, refusal, Unavailable } from "./errors.js";
import { type Answer, type Door, exchange, Lost } from "./exchange.js";
import { isFinal, parseReading, type Reading } from "./outcome.js";
import { KEY } from "./request.js";
import { type Clock, pauseMs, repeated } from "./retry.js";

/** The longest that one call may wait. */
const WAIT_SECONDS_MAX = 20;

/** Parameters of one read: `wait` seconds for a sequence above `after`. */
export type Query = { readonly wait?: number; readonly after?: number };

/** Return the outcome, and ask again after each failure until the time is over. */
export async function get(door: Door, clock: Clock, key: string, query: Query, seconds: number): Promise<Reading> {
  return repeated(clock, seconds, () => once(door, key, query), (error) => error instanceof Unavailable);
}

/** Wait for a sequence above `after`; without it, for a final status or LIMBO. Each call waits for 20 s at most. */
export async function wait(
  door: Door,
  clock: Clock,
  key: string,
  seconds: number,
  after: number | undefined,
): Promise<Reading> {
  const overAt = clock.now() + seconds * 1_000;
  let seen = after ?? 0;
  let failures = 0;
  for (;;) {
    const askedAt = clock.now();
    const left = Math.max(0, overAt - askedAt) / 1_000;
    try {
      const found = await once(door, key, { after: seen, wait: Math.min(WAIT_SECONDS_MAX, Math.ceil(left)) });
      if (left === 0 || isAwaited(found, after)) {
        return found;
      }
      seen = Math.max(seen, found.sequence);
      failures = 0;
    } catch (error) {
      if (left === 0 || !(error instanceof NotFound || error instanceof Unavailable)) {
        throw error;
      }
      failures = error instanceof Unavailable ? failures + 1 : 0;
    }
    if (clock.now() - askedAt < 1_000) {
      // An answer at once, or a failure: never a busy loop.
      const pause = failures > 0 ? pauseMs(failures, clock.random()) : 1_000;
      await clock.sleep(Math.max(0, Math.min(pause, overAt - clock.now())));
    }
  }
}

async function once(door: Door, key: string, query: Query): Promise<Reading> {
  if (!KEY.test(key)) {
    throw new InvalidRequest(`key: must be a string that matches ${KEY.source}`);
  }
  const { status, text, etag } = await asked(door, key, query);
  if (status === 429 || status >= 500) {
    throw new Unavailable(`${key}: ${status} ${text.slice(0, 500)}; ask again`, { status });
  }
  if (status !== 200) {
    throw refusal(key, status, text);
  }
  return parseReading(key, text, etag);
}

async function asked(door: Door, key: string, query: Query): Promise<Answer> {
  try {
    return await exchange(door, { method: "GET", path: `/settlements/${key}`, query });
  } catch (error) {
    throw error instanceof Lost ? new Unavailable(`${key}: ${error.message}; ask again`, { cause: error }) : error;
  }
}

function isAwaited({ outcome, sequence }: Reading, after: number | undefined): boolean {
  return after === undefined ? isFinal(outcome) || outcome.status === "LIMBO" : sequence > after;
}
