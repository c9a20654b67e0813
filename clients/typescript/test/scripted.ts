import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client, type Clock, type Request } from "../src/index.js";

export const KEY = "order-2026-000101";
export const PAYMENT: Request = { key: KEY, payer: "dora", payee: "emil", amount: "48.20", currency: "EUR" };

/** A build elsewhere than in `dist` says where the server is. */
const SERVER =
  process.env["CONFORMANCE_SERVER"] ?? fileURLToPath(new URL("../../../conformance/server.py", import.meta.url));

export type Call =
  | { readonly method: "start"; readonly request: Request; readonly seconds?: number; readonly wait?: number }
  | { readonly method: "get"; readonly key: string }
  | { readonly method: "wait"; readonly key: string; readonly seconds: number; readonly after?: number }
  | { readonly method: "cancel"; readonly request: Request; readonly seen?: number }
  | { readonly method: "receive"; readonly events: readonly unknown[] };

/** A case of the table, as `clients/conformance/server.py` describes it. */
export interface Case {
  readonly name: string;
  readonly call: Call;
  readonly result?: unknown;
  readonly error?: string;
  readonly message?: string;
  readonly pauses?: readonly number[];
}

/** A clock that remembers each pause, and that each answer moves. Its jitter is none. */
export class Paused implements Clock {
  readonly pauses: number[] = [];
  milliseconds = 0;

  now(): number {
    return this.milliseconds;
  }

  async sleep(milliseconds: number): Promise<void> {
    this.pauses.push(milliseconds / 1_000);
    this.milliseconds += milliseconds;
  }

  random(): number {
    return 1;
  }

  /** Send a call, and let the time pass that its answer takes. */
  readonly fetch: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    this.milliseconds += 1_000 * Number(answer.headers.get("scripted-seconds") ?? 0);
    return answer;
  };
}

/** Return a client with the key that the scripted server expects. */
export function clientOf(apiUrl: string, clock: Paused, send: typeof fetch = clock.fetch): Client {
  const credentials = { accessKeyId: "conformance", secretAccessKey: "conformance-secret" };
  return new Client({ apiUrl, region: "eu-west-1", credentials, clock, fetch: send });
}

/** The scripted server of the conformance cases, as a process that ends with its input. */
export class ScriptedServer {
  readonly #process = spawn(process.env["PYTHON"] ?? "python3", [SERVER], { stdio: ["pipe", "pipe", "inherit"] });
  readonly #lines = createInterface(this.#process.stdout)[Symbol.asyncIterator]();

  /** Return the table's cases: once, and first. */
  async cases(): Promise<readonly Case[]> {
    return (await this.#next()) as readonly Case[];
  }

  /** Begin a case; return the server's address. */
  async begin(name: string): Promise<string> {
    return (await this.#asked(name)) as string;
  }

  /** End a case; return the calls that were not as expected. */
  async faults(): Promise<readonly string[]> {
    return (await this.#asked(null)) as readonly string[];
  }

  end(): void {
    this.#process.stdin.end();
  }

  async #asked(line: unknown): Promise<unknown> {
    this.#process.stdin.write(`${JSON.stringify(line)}\n`);
    return this.#next();
  }

  async #next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done) {
      throw new Error("the scripted server has ended");
    }
    return JSON.parse(value as string);
  }
}
