import { AwsV4Signer } from "aws4fetch";

/** What signs a call, as AWS's own providers return it. */
export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** A call of the settlements API, before it is signed. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly query?: Readonly<Record<string, number>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** An answer that came in full. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly etag: string | null;
}

/** The connection failed, or its answer did not come in full: the call may have been carried out. */
export class Lost extends Error {}

/** Where calls go, and with which right. */
export interface Door {
  readonly url: string;
  readonly region: string;
  readonly credentials: () => Promise<Credentials>;
  readonly fetch: typeof fetch;
}

/** API Gateway answers within 30 s. */
const TIMEOUT_MS = 35_000;

/** Sign a call by Signature Version 4, and send it once. Throws Lost without an answer. */
export async function exchange(door: Door, call: Call): Promise<Answer> {
  const { accessKeyId, secretAccessKey, sessionToken } = await door.credentials();
  const url = new URL(door.url + call.path);
  for (const [name, value] of Object.entries(call.query ?? {})) {
    url.searchParams.set(name, String(value));
  }
  const signed = await new AwsV4Signer({
    method: call.method,
    url: url.href,
    headers: { ...call.headers },
    ...(call.body === undefined ? {} : { body: call.body }),
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service: "execute-api",
    region: door.region,
  }).sign();
  try {
    const response = await door.fetch(signed.url, {
      method: signed.method,
      headers: signed.headers,
      body: call.body ?? null,
      redirect: "manual", // a signature is for one address
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, text: await response.text(), etag: response.headers.get("etag") };
  } catch (cause) {
    throw new Lost(`no answer: ${reasonOf(cause)}`, { cause });
  }
}

/** Return why a fetch failed: its own message is `fetch failed`, and its cause says more. */
function reasonOf(cause: unknown): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return inner instanceof Error ? `${inner.name}: ${inner.message}` : String(inner);
}
