/** A typed client of a settlement stack: start, get, wait, cancel, and an inbox of its events. */
export { Client, type ClientOptions, type Tries } from "./client.js";
export {
  IdempotencyConflict,
  InvalidRequest,
  MalformedAnswer,
  NotCancellable,
  NotFound,
  Refused,
  SequenceChanged,
  SettlementClientError,
  Throttled,
  Unavailable,
  Unknown,
} from "./errors.js";
export { type Credentials } from "./exchange.js";
export {
  type Arrival,
  arrival,
  Inbox,
  MemoryStore,
  parseEvent,
  type Received,
  type SettlementEvent,
  type Store,
} from "./inbox.js";
export { type Action, isFinal, isPaid, type Outcome, parseOutcome, type Reading, type Status } from "./outcome.js";
export { checkRequest, mintKey, type Request } from "./request.js";
export { type Clock } from "./retry.js";
