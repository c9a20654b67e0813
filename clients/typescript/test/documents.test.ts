import assert from "node:assert/strict";
import { test } from "node:test";

import {
  checkRequest,
  Inbox,
  InvalidRequest,
  isFinal,
  isPaid,
  MalformedAnswer,
  MemoryStore,
  mintKey,
  type Outcome,
  parseEvent,
  parseOutcome,
  type Request,
} from "../src/index.js";
import { KEY, PAYMENT } from "./scripted.js";

const SETTLED = {
  ...{ key: KEY, status: "SETTLED", payer: "dora", payee: "emil", amount: "48.20", fee: "0.48", currency: "EUR" },
  ...{ escrow: "0.00", steps: ["hold", "verify", "release", "fee"], reversed: [], failure: null, replayed: true },
  ...{ next: { action: "nothing", reason: "The payee is paid." }, claimed_at: "2026-11-20T12:00:00.123Z" },
  finished_at: "2026-11-20T12:00:01.456Z",
};
const EVENT = {
  ...{ specversion: "1.0", id: `${KEY}:4`, source: "settlement-prod", type: "settlement.settled", subject: KEY },
  ...{ time: "2026-11-20T12:00:01.456Z", datacontenttype: "application/json", sequence: "4" },
  ...{ sequencetype: "Integer", data: SETTLED },
};

test("a minted key is new, and begins with its prefix", () => {
  const keys = new Set(Array.from({ length: 100 }, () => mintKey("order")));

  assert.equal(keys.size, 100);
  assert.ok([...keys].every((key) => /^order-[0-9a-f]{16}$/.test(key)));
  assert.throws(() => mintKey("an order"), /^InvalidRequest: prefix/);
  assert.throws(() => mintKey("x".repeat(48)), InvalidRequest);
});

test("a request that keeps the contract passes", () => {
  const largest = { fee: "0.48", deadline_seconds: 30, payer_name: "D\u00f6ra \u{1F600}", reference: " a" };

  for (const more of [{}, largest, { metadata: { shop: "web" } }, { payee_name: "\u{1F600}".repeat(100) }]) {
    checkRequest({ ...PAYMENT, ...more });
  }
});

const WRONG: readonly (readonly [string, object])[] = [
  ["key", { key: "short" }],
  ["key", { key: undefined }],
  ["payer", { payer: "a b" }],
  ["payee", { payee: "dora" }],
  ["currency", { currency: "eur" }],
  ["amount", { amount: 48.2 }],
  ["amount", { amount: "048.20" }],
  ["amount", { amount: "0.00" }],
  ["amount", { amount: "1e3" }],
  ["amount", { amount: "123456789012345.1" }],
  ["fee", { fee: "48.2" }],
  ["fee", { fee: 1 }],
  ["deadline_seconds", { deadline_seconds: 29 }],
  ["deadline_seconds", { deadline_seconds: 30.5 }],
  ["deadline_seconds", { deadline_seconds: 86_401 }],
  ["payer_name", { payer_name: " " }],
  ["payee_name", { payee_name: "a\nb" }],
  ["reference", { reference: "a".repeat(65) }],
  ["reference", { reference: "\ud800" }],
  ["metadata", { metadata: Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`n${n}`, "v"])) }],
  ["metadata", { metadata: { "a b": "v" } }],
  ["metadata.a", { metadata: { a: 1 } }],
  ["colour", { colour: "green" }],
];

for (const [field, change] of WRONG) {
  test(`a request is refused, and names ${field}: ${JSON.stringify(change).slice(0, 40)}`, () => {
    const request = { ...PAYMENT, ...change } as unknown as Request;

    assert.throws(() => checkRequest(request), new RegExp(`^InvalidRequest: (.*; )?${field}: [^;]+$`));
  });
}

test("a payment stands unless all of it came back", () => {
  const paid = (change: object) => isPaid(parseOutcome({ ...SETTLED, ...change }));

  assert.equal(paid({}), true);
  assert.equal(paid({ reversed_in_part: "47.71" }), true);
  assert.equal(paid({ reversed_in_part: "47.72" }), false);
  assert.equal(paid({ amount: "9007199254740993.01", fee: "0", reversed_in_part: "9007199254740993.00" }), true);
  assert.equal(paid({ status: "PROCESSING", next: { action: "same_key", reason: "wait" } }), false);
});

test("three statuses are final", () => {
  const status = (name: string) => isFinal({ ...SETTLED, status: name } as unknown as Outcome);

  assert.deepEqual(["SETTLED", "REJECTED", "COMPENSATED"].map(status), [true, true, true]);
  assert.deepEqual(["PROCESSING", "COMPENSATING", "LIMBO"].map(status), [false, false, false]);
});

const MALFORMED: readonly (readonly [string, unknown])[] = [
  ["outcome: is no JSON", "{"],
  ["outcome: must be a JSON object", "[]"],
  ["outcome.key: must match", { ...SETTLED, key: "short" }],
  ["outcome.payer: must be a string", { ...SETTLED, payer: 1 }],
  ["outcome.fee: must match", { ...SETTLED, fee: "1e3" }],
  ["outcome.steps: must be a list of strings", { ...SETTLED, steps: [1] }],
  ["outcome.replayed: must be true or false", { ...SETTLED, replayed: "true" }],
  ["outcome.claimed_at: must match", { ...SETTLED, claimed_at: "2026-11-20" }],
  ["outcome.claimed_at: is no instant", { ...SETTLED, claimed_at: "2026-11-20T25:00:00Z" }],
  ["outcome.finished_at: missing", { ...SETTLED, finished_at: undefined }],
  ["outcome.failure: must be an object", { ...SETTLED, failure: "hold" }],
  ["outcome.failure.cause: missing", { ...SETTLED, failure: { step: "hold", error: "Lost" } }],
  ["outcome.next: must be an object", { ...SETTLED, next: [] }],
  ["outcome.next.action: 'again' is unknown", { ...SETTLED, next: { action: "again", reason: "" } }],
  ["outcome.next.reason: missing", { ...SETTLED, next: { action: "nothing" } }],
  ["outcome.covered: must be a list of strings", { ...SETTLED, covered: {} }],
  ["outcome.reversed_in_part: must be a string", { ...SETTLED, reversed_in_part: 1 }],
  ["outcome.metadata: must be an object of texts", { ...SETTLED, metadata: { a: 1 } }],
];

for (const [words, given] of MALFORMED) {
  test(`a malformed outcome is named: ${words}`, () => {
    const text = typeof given === "string" ? given : JSON.stringify(given);

    assert.throws(() => parseOutcome(text), (error) => isMalformed(error, words));
  });
}

function isMalformed(error: unknown, words: string): boolean {
  return error instanceof MalformedAnswer && error.message.startsWith(words);
}

test("an event is the same in each delivered form", () => {
  const forms = [EVENT, { source: "settlement", detail: EVENT }, JSON.stringify({ detail: EVENT })];

  for (const event of forms.map(parseEvent)) {
    assert.deepEqual([event.id, event.key, event.sequence, event.type], [`${KEY}:4`, KEY, 4, "settlement.settled"]);
    assert.equal(event.outcome.status, "SETTLED");
  }
});

test("an event that breaks its contract is named", () => {
  const event = (change: object) => () => parseEvent({ ...EVENT, ...change });

  assert.throws(() => parseEvent({}), /event.detail: must be a JSON object/);
  assert.throws(event({ sequence: "04" }), /event.sequence: must match/);
  assert.throws(event({ sequence: 4 }), /event.sequence: must be a string/);
  assert.throws(event({ subject: "order-2026-000102" }), /event.subject: is not the key/);
  assert.throws(event({ time: "now" }), /event.time: must match/);
  assert.throws(event({ data: null }), /event.data: must be an object/);
});

test("sequences are compared as numbers, and each settlement has its own", async () => {
  const inbox = new Inbox(new MemoryStore());
  const other = "order-2026-000102";
  const received = async (sequence: string, key = KEY) =>
    inbox.receive({ ...EVENT, subject: key, sequence, data: { ...SETTLED, key } });

  assert.equal((await received("9")).isNew, true);
  assert.equal((await received("10")).isNew, true);
  assert.equal((await received("1", other)).isNew, true);
  assert.deepEqual([(await received("9")).isNew, (await received("12")).readTheRow], [false, true]);
  assert.equal((await received("12")).readTheRow, false);
});
