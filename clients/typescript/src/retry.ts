import { setTimeout } from "node:timers/promises";

/** The time that a call goes by. Tests have one of their own. */
export interface Clock {
  /** Milliseconds since any fixed instant; they never go back. */
  now(): number;
  sleep(milliseconds: number): Promise<void>;
  /** A number from 0 up to 1, for the jitter. */
  random(): number;
}

export const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (milliseconds) => setTimeout(milliseconds),
  random: Math.random,
};

const PAUSE_MS = 1_000;
const PAUSE_MS_MAX = 16_000;

/**
 * Return the pause after the nth failure in a row, from 1: a random part of 1, 2, 4, 8, 16 s and so on at 16.
 *
 * Full jitter: callers that fail together do not come back together.
 */
export function pauseMs(failures: number, random: number): number {
  return random * Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** (failures - 1));
}

/**
 * Make a call, and again after each error that `isWorthIt`, until it succeeds or the time is over.
 *
 * The last try begins when the time is over. Throws the last error.
 */
export async function repeated<T>(
  clock: Clock,
  seconds: number,
  call: () => Promise<T>,
  isWorthIt: (error: unknown) => boolean,
): Promise<T> {
  const overAt = clock.now() + seconds * 1_000;
  for (let failures = 1; ; failures += 1) {
    const leftMs = overAt - clock.now();
    try {
      return await call();
    } catch (error) {
      if (leftMs <= 0 || !isWorthIt(error)) {
        throw error;
      }
    }
    await clock.sleep(Math.max(0, Math.min(pauseMs(failures, clock.random()), overAt - clock.now())));
  }
}
