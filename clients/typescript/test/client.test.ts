import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, NotCancellable, Throttled, Unavailable, Unknown } from "../src/index.js";
import { clientOf, KEY, Paused, PAYMENT } from "./scripted.js";

const PROCESSING = {
  ...{ key: KEY, status: "PROCESSING", payer: "dora", payee: "emil", amount: "48.20", fee: "0.48", currency: "EUR" },
  ...{ escrow: "48.20", steps: ["hold"], reversed: [], failure: null, replayed: true, finished_at: null },
  ...{ next: { action: "same_key", reason: "It may still go through." }, claimed_at: "2026-11-20T12:00:00.123Z" },
};

/** Return what answers each call with the next status, the last one for ever; and the calls. */
function answering(...statuses: readonly number[]): { send: typeof fetch; sent: Request[] } {
  const sent: Request[] = [];
  const send: typeof fetch = async (input, init) => {
    sent.push(new Request(input as URL, init));
    const status = statuses[Math.min(sent.length, statuses.length) - 1] ?? 200;
    if (status === 0) {
      throw new TypeError("fetch failed", { cause: new Error("other side closed") });
    }
    const body = status === 409 ? { error: "NotCancellable", message: "too late" } : PROCESSING;
    return new Response(JSON.stringify(body), { status, headers: { etag: '"2"' } });
  };
  return { send, sent };
}

test("a read is repeated through lost answers and throttling", async () => {
  const clock = new Paused();
  const { send, sent } = answering(0, 429, 503, 200);

  const found = await clientOf("https://api.invalid", clock, send).get(KEY, { after: 1, wait: 20 });

  assert.equal(found.sequence, 2);
  assert.deepEqual(clock.pauses, [1, 2, 4]);
  assert.deepEqual([...new Set(sent.map((each) => each.url))], [
    `https://api.invalid/settlements/${KEY}?after=1&wait=20`,
  ]);
});

test("a read without an answer in its time is Unavailable, with its status", async () => {
  const { send } = answering(503);

  const found = clientOf("https://api.invalid", new Paused(), send).get(KEY, { seconds: 3 });

  await assert.rejects(found, (error) => error instanceof Unavailable && error.status === 503);
});

test("a cancellation is repeated, and its refusal is certain", async () => {
  const { send, sent } = answering(0, 503, 409);

  const cancelled = clientOf("https://api.invalid", new Paused(), send).cancel(PAYMENT, { seen: 2 });

  await assert.rejects(cancelled, NotCancellable);
  assert.deepEqual(sent.map((each) => each.headers.get("if-match")), ['"2"', '"2"', '"2"']);
});

test("a call that is throttled until its time is over says so", async () => {
  const { send } = answering(429);

  const started = clientOf("https://api.invalid", new Paused(), send).start(PAYMENT, { seconds: 2 });

  await assert.rejects(started, (error) => error instanceof Throttled && error.status === 429);
  assert.ok(Throttled.prototype instanceof Unknown);
});

test("no answer names the key and the cause", async () => {
  const { send } = answering(0);

  const started = clientOf("https://api.invalid", new Paused(), send).start(PAYMENT, { seconds: 0 });

  await assert.rejects(started, new RegExp(`${KEY}: the outcome is unknown.*other side closed`));
});

test("pauses are a random part of at most sixteen seconds", async () => {
  class Half extends Paused {
    override random(): number {
      return 0.5;
    }
  }
  const clock = new Half();
  const { send } = answering(0, 0, 0, 0, 0, 0, 200);

  await clientOf("https://api.invalid", clock, send).start(PAYMENT, { seconds: 100 });

  assert.deepEqual(clock.pauses, [0.5, 1, 2, 4, 8, 8]);
});

test("each try asks for credentials, and signs their token", async () => {
  let asked = 0;
  const credentials = async () => {
    asked += 1;
    return { accessKeyId: "key", secretAccessKey: "secret", sessionToken: `token-${asked}` };
  };
  const { send, sent } = answering(0, 200);
  const options = { region: "eu-west-1", clock: new Paused(), fetch: send, credentials };

  await new Client({ apiUrl: "https://api.invalid/", ...options }).start(PAYMENT);

  assert.deepEqual(sent.map((each) => each.headers.get("x-amz-security-token")), ["token-1", "token-2"]);
  assert.match(sent[1]?.headers.get("authorization") ?? "", /SignedHeaders=[a-z;-]*x-amz-security-token/);
  assert.equal(sent[1]?.url, "https://api.invalid/settlements");
});

test("credentials that fail after a lost answer leave the outcome unknown", async () => {
  let asked = 0;
  const credentials = async () => {
    asked += 1;
    if (asked > 1) {
      throw new Error("expired");
    }
    return { accessKeyId: "key", secretAccessKey: "secret" };
  };
  const { send } = answering(0);
  const options = { apiUrl: "https://api.invalid", region: "eu-west-1", clock: new Paused(), fetch: send, credentials };

  await assert.rejects(new Client(options).start(PAYMENT), Unknown);
});

test("the environment gives region and credentials", async () => {
  const names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
  const before = names.map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, { AWS_REGION: "eu-west-1", AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret" });
  const { send, sent } = answering(200);
  try {
    await new Client({ apiUrl: "https://api.invalid", fetch: send }).get(KEY);
    delete process.env["AWS_SECRET_ACCESS_KEY"];
    await assert.rejects(new Client({ apiUrl: "https://api.invalid", fetch: send }).get(KEY), /credentials/);
    delete process.env["AWS_REGION"];
    assert.throws(() => new Client({ apiUrl: "https://api.invalid" }), /region/);
  } finally {
    for (const [name, value] of before) {
      delete process.env[name];
      Object.assign(process.env, value === undefined ? {} : { [name]: value });
    }
  }
  assert.match(sent[0]?.headers.get("authorization") ?? "", /Credential=key\/\d{8}\/eu-west-1\/execute-api/);
});
