import assert from "node:assert/strict";
import { after, test } from "node:test";

import * as client from "../src/index.js";
import { type Call, type Case, clientOf, Paused, ScriptedServer } from "./scripted.js";

const server = new ScriptedServer();
after(() => server.end());

for (const one of await server.cases()) {
  test(`the table: ${one.name}`, async () => keeps(one));
}

async function keeps(one: Case): Promise<void> {
  const clock = new Paused();
  const url = await server.begin(one.name);
  try {
    const result = resultOf(one.call, clientOf(url, clock));
    if (one.error === undefined) {
      assert.deepEqual(await result, one.result);
    } else {
      await assert.rejects(result, (error) => isExpected(error, one));
    }
  } finally {
    assert.deepEqual(await server.faults(), []);
  }
  assert.deepEqual(clock.pauses, one.pauses ?? clock.pauses);
}

/** Whether an error is of the expected class; a Throttled is an Unknown. */
function isExpected(error: unknown, { error: name = "", message = "" }: Case): boolean {
  assert.ok(error instanceof Error);
  assert.equal(error.name, name);
  assert.ok(error.message.includes(message), error.message);
  return true;
}

async function resultOf(call: Call, of: client.Client): Promise<unknown> {
  switch (call.method) {
    case "start":
      return told(await of.start(call.request, call));
    case "cancel":
      return told(await of.cancel(call.request, call));
    case "get":
      return told(await of.get(call.key));
    case "wait":
      return told(await of.wait(call.key, call));
    case "receive":
      return arrivals(call.events);
  }
}

function told(found: client.Reading | undefined): unknown {
  return found === undefined ? null : { status: found.outcome.status, sequence: found.sequence };
}

async function arrivals(events: readonly unknown[]): Promise<readonly client.Arrival[]> {
  const inbox = new client.Inbox(new client.MemoryStore());
  const found: client.Arrival[] = [];
  for (const event of events) {
    found.push((await inbox.receive(JSON.stringify({ detail: event }))).arrival);
  }
  return found;
}
