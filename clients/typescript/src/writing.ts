import { MalformedAnswer, refusal, SettlementClientError, unknownOutcome } from "./errors.js";
import { type Answer, type Call, type Door, exchange, Lost } from "./exchange.js";
import { objectOf } from "./fields.js";
import { parseReading, type Reading } from "./outcome.js";
import { checkRequest, type Request } from "./request.js";
import { type Clock, repeated } from "./retry.js";

const JSON_BODY = { "Content-Type": "application/json" };

/** A call that pays or cancels, and the time for its tries. */
interface Write {
  readonly door: Door;
  readonly clock: Clock;
  readonly request: Request;
  readonly seconds: number;
}

/** No answer, 429 or a status from 500 up: the same call again is safe, and may help. */
class Unanswered extends SettlementClientError {}

/** Start a payment; return its outcome, or undefined if it is claimed and goes on. */
export async function start(write: Write, wait: number): Promise<Reading | undefined> {
  const { key } = write.request;
  const headers = { "Idempotency-Key": key, ...(wait > 0 ? { Prefer: `wait=${wait}` } : {}) };
  const answer = await answered(write, "/settlements", headers);
  return told(key, () => (isAccepted(answer, key) ? undefined : parseReading(key, answer.text, answer.etag)));
}

/** Cancel a payment, with `seen` only if its sequence is this one; return it as it is then. */
export async function cancel(write: Write, seen: number | undefined): Promise<Reading> {
  const { key } = write.request;
  const headers = seen === undefined ? {} : { "If-Match": `"${seen}"` };
  const answer = await answered(write, `/settlements/${key}/cancel`, headers);
  return told(key, () => parseReading(key, answer.text, answer.etag));
}

/**
 * Return the answer of status 200 or 202. Throws the refusal, or Unknown when the time is over.
 *
 * After a lost answer, a refusal that does not come from the stack, such as AWS's 403, says nothing about the call
 * before: that is Unknown, too.
 */
async function answered(write: Write, path: string, headers: Record<string, string>): Promise<Answer> {
  const { door, clock, request, seconds } = write;
  checkRequest(request);
  const call: Call = { method: "POST", path, headers: { ...JSON_BODY, ...headers }, body: JSON.stringify(request) };
  let isLost = false;
  const once = async (): Promise<Answer> => {
    try {
      return await sent(door, request.key, call);
    } catch (error) {
      isLost ||= error instanceof Unanswered && error.status !== 429;
      throw error;
    }
  };
  try {
    return await repeated(clock, seconds, once, (error) => error instanceof Unanswered);
  } catch (error) {
    if (error instanceof Unanswered || (isLost && !isOfTheStack(error))) {
      throw unknownOutcome(request.key, error);
    }
    throw error;
  }
}

async function sent(door: Door, key: string, call: Call): Promise<Answer> {
  let answer: Answer;
  try {
    answer = await exchange(door, call);
  } catch (error) {
    throw error instanceof Lost ? new Unanswered(error.message, { cause: error }) : error;
  }
  const { status, text } = answer;
  if (status === 429 || status >= 500) {
    throw new Unanswered(`${status} ${text.slice(0, 500)}`, { status });
  }
  if (status !== 200 && status !== 202) {
    throw refusal(key, status, text);
  }
  return answer;
}

function isOfTheStack(error: unknown): boolean {
  return error instanceof SettlementClientError && error.constructor !== SettlementClientError;
}

/** Whether an answer says no more than that the key is claimed. */
function isAccepted(answer: Answer, key: string): boolean {
  const content = objectOf(answer.text, "answer");
  return answer.status === 202 && !("status" in content) && content["key"] === key && "status_url" in content;
}

/** Return the answer's content. Throws Unknown if it is malformed: the call may have been carried out. */
function told<T>(key: string, content: () => T): T {
  try {
    return content();
  } catch (error) {
    throw error instanceof MalformedAnswer ? unknownOutcome(key, error) : error;
  }
}
