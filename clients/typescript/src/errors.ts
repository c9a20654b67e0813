/** Any error of this client. Its class says what the caller may do next. */
export class SettlementClientError extends Error {
  /** The HTTP status of the answer; undefined if there was none. */
  readonly status: number | undefined;

  constructor(message: string, options: ErrorOptions & { status?: number | undefined } = {}) {
    super(message, options);
    this.name = new.target.name;
    this.status = options.status;
  }
}

/** Nothing was written, and the same call will be refused again. */
export class Refused extends SettlementClientError {}

/** A field is wrong; the message names each field at fault and its rule. */
export class InvalidRequest extends Refused {}

/** The key belongs to a payment with other content, which is unchanged. */
export class IdempotencyConflict extends Refused {}

/** It is too late to cancel the payment, which is unchanged; the message says what can be done. */
export class NotCancellable extends Refused {}

/** The payment has changed since it was read, and was not cancelled: read it again, and decide again. */
export class SequenceChanged extends Refused {}

/** The outcome is unknown: make the same call again, with the same request, and never with a new key. */
export class Unknown extends SettlementClientError {}

/** An Unknown whose last answer was 429: the stage has more calls than it lets through. */
export class Throttled extends Unknown {}

/** The key was never claimed, as far as the stack knows: a request may still be on its way. */
export class NotFound extends SettlementClientError {}

/** A read had no answer, 429, or a status from 500 up: ask again. Reading changes nothing. */
export class Unavailable extends SettlementClientError {}

/** An answer or an event that breaks its contract; the message names the field. */
export class MalformedAnswer extends SettlementClientError {}

const NAMED = { InvalidRequest, IdempotencyConflict, NotCancellable, SequenceChanged, SettlementNotFound: NotFound };

/**
 * Return the error of an answer that refuses a call for good, by the name in its body.
 *
 * Without a known name, as of AWS's own 403, it is a SettlementClientError: the call did not reach the stack.
 */
export function refusal(key: string, status: number, text: string): SettlementClientError {
  const name = Object.keys(NAMED).find((each) => text.includes(`"${each}"`));
  const error = name === undefined ? SettlementClientError : NAMED[name as keyof typeof NAMED];
  return new error(`${key}: ${status} ${text.slice(0, 500)}`, { status });
}

/** Return the error of a key whose outcome is unknown, with its cause. */
export function unknownOutcome(key: string, cause: unknown): Unknown {
  const status = cause instanceof SettlementClientError ? cause.status : undefined;
  const words = cause instanceof Error ? cause.message : String(cause);
  return new (status === 429 ? Throttled : Unknown)(
    `${key}: the outcome is unknown. Make the same call again, with the same key; never use a new key for it. ${words}`,
    { cause, status },
  );
}
