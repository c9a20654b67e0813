import { MalformedAnswer } from "./errors.js";
import { Fields, objectOf } from "./fields.js";
import { type Outcome, parseOutcome } from "./outcome.js";
import { KEY } from "./request.js";

const SEQUENCE = /^[1-9][0-9]{0,14}$/;

/** A snapshot of a settlement after a change. Act on `outcome`, not on `type`. */
export interface SettlementEvent {
  /** The key and the sequence: the same whenever the event comes again. */
  readonly id: string;
  readonly key: string;
  readonly sequence: number;
  readonly type: string;
  readonly outcome: Outcome;
}

/** Return the event in an SQS body, an event of EventBridge, or a CloudEvent. Throws MalformedAnswer. */
export function parseEvent(body: unknown): SettlementEvent {
  const message = objectOf(body, "event");
  const cloud = "specversion" in message ? message : objectOf(message["detail"], "event.detail");
  const told = new Fields(cloud, "event");
  const outcome = parseOutcome(told.inner("data").content);
  const key = told.text("subject", KEY);
  if (outcome.key !== key) {
    throw new MalformedAnswer("event.subject: is not the key in event.data");
  }
  told.instant("time");
  const sequence = Number(told.text("sequence", SEQUENCE));
  return { id: `${key}:${sequence}`, key, sequence, type: told.text("type"), outcome };
}

/**
 * How an event stands to the last one of its settlement that was recorded.
 *
 * - `next`: the first event, or the one that follows. Apply it.
 * - `gap`: newer, and events before it are late or lost. Apply it, as it has all of them; read the settlement with
 *   `get` if you need each change on its way.
 * - `duplicate`: the recorded one again. Drop it.
 * - `late`: older than the recorded one. Drop it.
 */
export type Arrival = "next" | "gap" | "duplicate" | "late";

/** Return how a sequence stands to the last recorded one, which is undefined before the first event. */
export function arrival(last: number | undefined, sequence: number): Arrival {
  if (last === undefined || sequence === last + 1) {
    return "next";
  }
  if (sequence === last) {
    return "duplicate";
  }
  return sequence > last ? "gap" : "late";
}

/** The reader's memory of the last sequence of each key. */
export interface Store {
  /**
   * Record a sequence if it is above the recorded one; return the one that was recorded before, undefined if none.
   *
   * In one transaction with the reader's own change: of two writes, one after the other, a reader that dies between
   * them loses the change or makes it twice.
   */
  record(event: SettlementEvent): Promise<number | undefined>;
}

/** A Store in this process alone: for tests, and for readers that begin anew from `get`. */
export class MemoryStore implements Store {
  readonly #last = new Map<string, number>();

  async record({ key, sequence }: SettlementEvent): Promise<number | undefined> {
    const last = this.#last.get(key);
    this.#last.set(key, Math.max(last ?? 0, sequence));
    return last;
  }
}

/** An event that has come, and how. */
export interface Received {
  readonly event: SettlementEvent;
  readonly arrival: Arrival;
  /** Whether it has taken effect: it is newer than all before. */
  readonly isNew: boolean;
  /** Whether events before it are missing: read the settlement with `get` to see where it stands now. */
  readonly readTheRow: boolean;
}

/** A reader's inbox: each outcome event takes effect once, and an older one never. */
export class Inbox {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Record the event in a message. Throws MalformedAnswer: the message will never be an outcome event. */
  async receive(body: unknown): Promise<Received> {
    const event = parseEvent(body);
    const how = arrival(await this.#store.record(event), event.sequence);
    return { event, arrival: how, isNew: how === "next" || how === "gap", readTheRow: how === "gap" };
  }
}
