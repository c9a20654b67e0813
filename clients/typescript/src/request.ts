import { randomBytes } from "node:crypto";

import { scaled } from "./amount.js";
import { InvalidRequest } from "./errors.js";
import type { components } from "./generated/api.js";

/**
 * One payment. Keep it with your order before the first try: the whole request belongs to its key.
 *
 * Amounts are decimal strings.
 */
export type Request = components["schemas"]["Request"] & { readonly key: string };

export const KEY = /^[A-Za-z0-9_-]{16,64}$/;
const ACCOUNT = /^[A-Za-z0-9_.-]{1,64}$/;
const AMOUNT = /^(0|[1-9][0-9]{0,14})(\.[0-9]{1,8})?$/;
const AMOUNT_LENGTH_MAX = 16;
const CURRENCY = /^[A-Z][A-Z0-9]{2,11}$/;
const MEMBER = /^[A-Za-z0-9_.-]{1,32}$/;
const MEMBERS_MAX = 8;
/** The contract's text, and no half of a surrogate pair, which is none in UTF-8. */
const TEXT = /^ *[^ \u0000-\u001f\u007f-\u009f\ud800-\udfff][^\u0000-\u001f\u007f-\u009f\ud800-\udfff]*$/u;

const PATTERNS = { key: KEY, payer: ACCOUNT, payee: ACCOUNT, currency: CURRENCY };
const LENGTHS_MAX = { payer_name: 100, payee_name: 100, reference: 64 };
const OTHERS = ["amount", "fee", "deadline_seconds", "metadata"];

/**
 * Return a new idempotency key. Keep it with the order before the first try.
 *
 * It is random: a second one for the same payment pays twice. Throws InvalidRequest if the prefix fits no key.
 */
export function mintKey(prefix: string): string {
  const key = `${prefix}-${randomBytes(8).toString("hex")}`;
  if (!KEY.test(key)) {
    throw new InvalidRequest("prefix: must be 1 to 47 letters, digits, - or _");
  }
  return key;
}

/**
 * Check all that the contract's schema can say. Throws InvalidRequest, which names each field at fault.
 *
 * The stack checks the rest: the accounts, the currency's decimals, its fees.
 */
export function checkRequest(request: Request): void {
  const problems = [...problemsOf(request as unknown as Record<string, unknown>)];
  if (problems.length > 0) {
    throw new InvalidRequest(problems.join("; "));
  }
}

function* problemsOf(given: Record<string, unknown>): Generator<string> {
  for (const [name, pattern] of Object.entries(PATTERNS)) {
    if (!matches(pattern, given[name])) {
      yield `${name}: must be a string that matches ${pattern.source}`;
    }
  }
  if (given["payee"] === given["payer"]) {
    yield "payee: must be another account than the payer's";
  }
  yield* amountProblems(given["amount"], given["fee"]);
  const seconds = given["deadline_seconds"];
  if (seconds !== undefined && !(Number.isInteger(seconds) && Number(seconds) >= 30 && Number(seconds) <= 86_400)) {
    yield "deadline_seconds: must be a whole number from 30 to 86400";
  }
  for (const [name, lengthMax] of Object.entries(LENGTHS_MAX)) {
    if (given[name] !== undefined) {
      yield* textProblems(name, given[name], lengthMax);
    }
  }
  if (given["metadata"] !== undefined) {
    yield* metadataProblems(given["metadata"]);
  }
  const known = [...Object.keys(PATTERNS), ...Object.keys(LENGTHS_MAX), ...OTHERS];
  for (const name of Object.keys(given).filter((each) => !known.includes(each))) {
    yield `${name}: is no field of a request`;
  }
}

function* amountProblems(amount: unknown, fee: unknown): Generator<string> {
  for (const [name, value] of Object.entries({ amount, ...(fee === undefined ? {} : { fee }) })) {
    if (!isAmount(value)) {
      yield `${name}: must be a decimal string such as "48.20", never a number`;
    }
  }
  if (!isAmount(amount)) {
    return;
  }
  if (scaled(amount) === 0n) {
    yield "amount: must be greater than zero";
  }
  if (isAmount(fee) && scaled(fee) >= scaled(amount)) {
    yield "fee: must be less than the amount";
  }
}

function* textProblems(name: string, value: unknown, lengthMax: number): Generator<string> {
  if (!(matches(TEXT, value) && [...value].length <= lengthMax)) {
    yield `${name}: must be printable text of 1 to ${lengthMax} characters`;
  }
}

function* metadataProblems(given: unknown): Generator<string> {
  if (typeof given !== "object" || given === null || Object.keys(given).length > MEMBERS_MAX) {
    yield `metadata: must be an object of at most ${MEMBERS_MAX} texts`;
    return;
  }
  for (const [name, value] of Object.entries(given)) {
    if (!MEMBER.test(name)) {
      yield `metadata: the name of a member must match ${MEMBER.source}`;
    } else {
      yield* textProblems(`metadata.${name}`, value, 64);
    }
  }
}

function matches(pattern: RegExp, value: unknown): value is string {
  return typeof value === "string" && pattern.test(value);
}

function isAmount(value: unknown): value is string {
  return matches(AMOUNT, value) && value.length <= AMOUNT_LENGTH_MAX;
}
