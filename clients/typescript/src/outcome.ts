import { scaled } from "./amount.js";
import { MalformedAnswer } from "./errors.js";
import { Fields, objectOf } from "./fields.js";
import type { components } from "./generated/documents.js";
import { KEY } from "./request.js";

/**
 * The state of a settlement. Amounts are decimal strings: never make a number of one.
 *
 * Fields that this version does not know are kept, and not checked.
 */
export type Outcome = components["schemas"]["outcome"];
export type Status = Outcome["status"];
export type Action = Outcome["next"]["action"];

/** An outcome and its sequence, which each change raises by one: hand it back as `after`. */
export interface Reading {
  readonly outcome: Outcome;
  readonly sequence: number;
}

/** The actions that each status allows: a new key while the old one may still pay would pay twice. */
const ACTIONS: Readonly<Record<Status, readonly Action[]>> = {
  PROCESSING: ["same_key"],
  SETTLED: ["nothing"],
  REJECTED: ["new_key"],
  COMPENSATING: ["same_key"],
  COMPENSATED: ["new_key", "nothing"],
  LIMBO: ["same_key"],
};

const STATUSES = Object.keys(ACTIONS) as readonly Status[];
const SEQUENCE_IN_QUOTES = /^"([0-9]{1,15})"$/;

/** Whether the status stays so; a person may still order the reversal of a SETTLED one. */
export function isFinal(outcome: Outcome): boolean {
  return ["SETTLED", "REJECTED", "COMPENSATED"].includes(outcome.status);
}

/** Whether the payment stands: it is SETTLED, and not all of it was given back in parts. */
export function isPaid(outcome: Outcome): boolean {
  const { amount, fee, reversed_in_part: back = "0", status } = outcome;
  return status === "SETTLED" && scaled(back) < scaled(amount) - scaled(fee);
}

/** Return the outcome in a JSON text or object. Throws MalformedAnswer, which names the field. */
export function parseOutcome(given: unknown): Outcome {
  const told = new Fields(objectOf(given, "outcome"), "outcome");
  const status = told.oneOf("status", STATUSES);
  const advice = told.inner("next");
  const action = advice.oneOf("action", ["nothing", "same_key", "new_key"]);
  if (!ACTIONS[status].includes(action)) {
    throw new MalformedAnswer(`outcome.next.action: ${action} contradicts the status ${status}`);
  }
  advice.text("reason");
  told.text("key", KEY);
  checkRequired(told);
  checkOptional(told);
  return told.content as unknown as Outcome;
}

/** Return the outcome about a key, with the sequence of its ETag. Throws MalformedAnswer. */
export function parseReading(key: string, text: string, etag: string | null): Reading {
  const outcome = parseOutcome(text);
  const sequence = SEQUENCE_IN_QUOTES.exec(etag ?? "")?.[1];
  if (sequence === undefined) {
    throw new MalformedAnswer("etag: must be a sequence in quotes");
  }
  if (outcome.key !== key) {
    throw new MalformedAnswer("outcome.key: is not the key that was asked for");
  }
  return { outcome, sequence: Number(sequence) };
}

function checkRequired(told: Fields): void {
  for (const name of ["payer", "payee", "currency"]) {
    told.text(name);
  }
  for (const name of ["amount", "fee", "escrow"]) {
    told.amount(name);
  }
  told.texts("steps");
  told.texts("reversed");
  told.flag("replayed");
  told.instant("claimed_at");
  if (told.isSet("finished_at")) {
    told.instant("finished_at");
  }
  if (told.isSet("failure")) {
    const failure = told.inner("failure");
    for (const name of ["step", "error", "cause"]) {
      failure.text(name);
    }
  }
}

function checkOptional(told: Fields): void {
  if (told.has("covered")) {
    told.texts("covered");
  }
  if (told.has("reversed_in_part")) {
    told.amount("reversed_in_part");
  }
  if (told.has("reference")) {
    told.text("reference");
  }
  if (told.has("metadata")) {
    told.mapping("metadata");
  }
}
