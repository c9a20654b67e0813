// Made by generate.mjs from docs/contracts. Do not edit: `npm run generate` writes it anew.
export interface paths {
    readonly "/settlements/{key}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The outcome of a settlement as it is now, or as soon as it has changed. */
        readonly get: {
            readonly parameters: {
                readonly query?: {
                    /** @description Seconds to wait for a sequence above `after`. The row is read once a second meanwhile. */
                    readonly wait?: number;
                    /** @description The sequence that the caller has; 0 for none. Required with `wait`. */
                    readonly after?: number;
                };
                readonly header?: {
                    /** @description The `ETag` that the caller has. */
                    readonly "If-None-Match"?: string;
                };
                readonly path: {
                    readonly key: components["schemas"]["Key"];
                };
                readonly cookie?: never;
            };
            readonly requestBody?: never;
            readonly responses: {
                /** @description The outcome, read consistently. */
                readonly 200: {
                    headers: {
                        readonly etag: components["headers"]["ETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Outcome"];
                    };
                };
                /** @description The caller has it. */
                readonly 304: {
                    headers: {
                        readonly [name: string]: unknown;
                    };
                    content?: never;
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/settlements/{key}/cancel": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Cancel a settlement before its hold, or while it is in review.
         * @description The body is the request that was started. One conditional write cancels it; the same call again gets it as it is. An amendment is a cancellation, and a start under a new key.
         */
        readonly post: {
            readonly parameters: {
                readonly query?: never;
                readonly header?: {
                    /** @description The `ETag` of the outcome on which the caller has decided. A settlement with another one is left alone. */
                    readonly "If-Match"?: string;
                };
                readonly path: {
                    readonly key: components["schemas"]["Key"];
                };
                readonly cookie?: never;
            };
            readonly requestBody: {
                readonly content: {
                    readonly "application/json": components["schemas"]["Request"];
                };
            };
            readonly responses: {
                /** @description It is cancelled, and has ended. `replayed` is false if this call has cancelled it. */
                readonly 200: {
                    headers: {
                        readonly location: components["headers"]["Location"];
                        readonly etag: components["headers"]["ETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Outcome"];
                    };
                };
                /** @description It is cancelled, and is being reversed. It never settles. */
                readonly 202: {
                    headers: {
                        readonly location: components["headers"]["Location"];
                        readonly etag: components["headers"]["ETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Outcome"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 409: components["responses"]["Refused"];
                readonly 412: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/settlements": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * A page of the settlements of an account, or of a status.
         * @description Name `account` or `status`. By account, the entries' partitions serve it: a settlement is listed by its hold (of the payer), its release (of the payee) or its fee (of `fees:<currency>`), and `since` is the time of that entry. By status, the index serves it: LIMBO by the start of the case, which `since` bounds; PROCESSING and COMPENSATING by recovery's next look, without `since`. No index serves another combination, and it is refused.
         */
        readonly get: {
            readonly parameters: {
                readonly query?: {
                    readonly account?: components["schemas"]["Account"];
                    readonly status?: "PROCESSING" | "COMPENSATING" | "LIMBO";
                    readonly since?: components["schemas"]["Instant"];
                    readonly limit?: number;
                    /** @description The `cursor` of the page before, with the same `account`, `status`, `since`, `from` and `to`. */
                    readonly cursor?: components["parameters"]["Cursor"];
                };
                readonly header?: never;
                readonly path?: never;
                readonly cookie?: never;
            };
            readonly requestBody?: never;
            readonly responses: {
                /** @description A page. One may have fewer settlements than `limit`, or none, and be followed by more. */
                readonly 200: {
                    headers: {
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": {
                            readonly settlements: readonly components["schemas"]["Outcome"][];
                            readonly unreadable: components["schemas"]["Unreadable"];
                            readonly cursor: components["schemas"]["Next"];
                        };
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly put?: never;
        /**
         * Start a settlement, once for each key.
         * @description The key is claimed, then a Standard execution is started; recovery starts one that was claimed and whose start is lost. The same request again is answered in the same way, and starts no second payment.
         */
        readonly post: {
            readonly parameters: {
                readonly query?: never;
                readonly header: {
                    /** @description The request's key. The body may repeat it as `key`. */
                    readonly "Idempotency-Key": components["schemas"]["Key"];
                    /** @description `wait=N`: the seconds, from 1 to 20, to wait for the end of the payment. The row is read once a second meanwhile. Other preferences are ignored. */
                    readonly Prefer?: string;
                };
                readonly path?: never;
                readonly cookie?: never;
            };
            readonly requestBody: {
                readonly content: {
                    readonly "application/json": components["schemas"]["Request"];
                };
            };
            readonly responses: {
                /** @description The payment is finished. `replayed` is false if this request began it. */
                readonly 200: {
                    headers: {
                        readonly location: components["headers"]["Location"];
                        readonly etag: components["headers"]["ETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Outcome"];
                    };
                };
                /** @description The payment is claimed, and will end. The outcome as it is, with its ETag, if another request claimed the key. */
                readonly 202: {
                    headers: {
                        readonly location: components["headers"]["Location"];
                        readonly etag: components["headers"]["ETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Accepted"] | components["schemas"]["Outcome"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 409: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/accounts/{id}/entries": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** A page of an account's statement, oldest entry first. */
        readonly get: {
            readonly parameters: {
                readonly query?: {
                    /** @description The first instant of the statement. */
                    readonly from?: components["schemas"]["Instant"];
                    /** @description The first instant behind the statement. */
                    readonly to?: components["schemas"]["Instant"];
                    readonly limit?: number;
                    /** @description The `cursor` of the page before, with the same `account`, `status`, `since`, `from` and `to`. */
                    readonly cursor?: components["parameters"]["Cursor"];
                };
                readonly header?: never;
                readonly path: {
                    readonly id: components["schemas"]["Account"];
                };
                readonly cookie?: never;
            };
            readonly requestBody?: never;
            readonly responses: {
                /** @description A page, each entry once. */
                readonly 200: {
                    headers: {
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Statement"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/journal": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /**
         * A page of the whole journal, all accounts in one list, as it was sealed.
         * @description Read from the sealed journal's objects, and never from the table. The newest minutes are held back until nothing can come between. An entry may come twice, equal to the first: `key` and `step` name it.
         */
        readonly get: {
            readonly parameters: {
                readonly query?: {
                    /** @description Leaves out the entries that were posted before. */
                    readonly since?: components["schemas"]["Instant"];
                    /** @description Most entries of a page, together with what was skipped. */
                    readonly limit?: number;
                    /** @description The `cursor` of the page before, with the same `account`, `status`, `since`, `from` and `to`. */
                    readonly cursor?: components["parameters"]["Cursor"];
                };
                readonly header?: never;
                readonly path?: never;
                readonly cookie?: never;
            };
            readonly requestBody?: never;
            readonly responses: {
                /** @description A page. One may have fewer entries than `limit`, or none, and be followed by more. */
                readonly 200: {
                    headers: {
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Journal"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/payouts": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /**
         * Pay out to a payee's bank account, once for each key.
         * @description The amount leaves the account, then the bank is sent a payment: most take days. The same request again gets the payout as it is, and starts no second one. A refusal leaves nothing on record.
         */
        readonly post: {
            readonly parameters: {
                readonly query?: never;
                readonly header?: never;
                readonly path?: never;
                readonly cookie?: never;
            };
            readonly requestBody: {
                readonly content: {
                    readonly "application/json": components["schemas"]["PayoutRequest"];
                };
            };
            readonly responses: {
                /** @description An earlier request has started it. */
                readonly 200: {
                    headers: {
                        readonly location: components["headers"]["PayoutLocation"];
                        readonly etag: components["headers"]["PayoutETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Payout"];
                    };
                };
                /** @description Its money is reserved, and it is under way. */
                readonly 202: {
                    headers: {
                        readonly location: components["headers"]["PayoutLocation"];
                        readonly etag: components["headers"]["PayoutETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Payout"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 409: components["responses"]["Refused"];
                readonly 422: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/payouts/{key}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** A payout as it is now. */
        readonly get: {
            readonly parameters: {
                readonly query?: never;
                readonly header?: never;
                readonly path: {
                    readonly key: components["schemas"]["Key"];
                };
                readonly cookie?: never;
            };
            readonly requestBody?: never;
            readonly responses: {
                /** @description The payout, read consistently. */
                readonly 200: {
                    headers: {
                        readonly location: components["headers"]["PayoutLocation"];
                        readonly etag: components["headers"]["PayoutETag"];
                        readonly [name: string]: unknown;
                    };
                    content: {
                        readonly "application/json": components["schemas"]["Payout"];
                    };
                };
                readonly 400: components["responses"]["Refused"];
                readonly 403: components["responses"]["Denied"];
                readonly 404: components["responses"]["Refused"];
                readonly 503: components["responses"]["Refused"];
            };
        };
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        readonly Key: string;
        /** @description A customer's account, or an internal one such as `fees:EUR`. */
        readonly Account: string;
        /** @description A day, or an instant in UTC. */
        readonly Instant: string;
        /** @description The cursor behind this page; null if it is the last one. */
        readonly Next: string | null;
        /** @description As `settlement-request.schema.json` says, and `key` may be left out. */
        readonly Request: {
            readonly key?: string;
            readonly payer: string;
            readonly payee: string;
            readonly amount: string;
            readonly currency: string;
            readonly fee?: string;
            readonly deadline_seconds?: number;
            readonly payer_name?: string;
            readonly payee_name?: string;
            readonly reference?: string;
            readonly metadata?: {
                readonly [key: string]: string;
            };
        };
        readonly PayoutRequest: {
            readonly key: components["schemas"]["Key"];
            /** @description The customer's account, which pays. */
            readonly account: string;
            readonly amount: string;
            readonly currency: string;
            /** @description The id of a payee's bank account, which two persons have added and confirmed. */
            readonly destination: string;
        };
        /** @description No bank account is among it. Other fields may follow. */
        readonly Payout: {
            readonly key: components["schemas"]["Key"];
            /**
             * @description PAID and CONFIRMED (on the bank's statement) may still become RETURNED.
             * @enum {unknown}
             */
            readonly status: "RESERVED" | "SENDING" | "UNKNOWN" | "ACCEPTED" | "PAID" | "CONFIRMED" | "REFUSED" | "RETURNED" | "LIMBO";
            readonly account: string;
            readonly amount: string;
            readonly currency: string;
            readonly destination: string;
            /** @description By which the bank knows it: the payment's end-to-end id. */
            readonly reference: string;
            /** @description How often it was sent, under one key of the bank. */
            readonly attempts: number;
            /** @description What the caller does next; a program may act on `action` alone. */
            readonly next: {
                /** @enum {unknown} */
                readonly action: "nothing" | "same_key" | "new_key";
                readonly reason: string;
            };
            readonly reserved_at: string;
            readonly first_sent_at?: string;
            readonly sent_at?: string;
            /**
             * @description The bank's last word.
             * @enum {unknown}
             */
            readonly said?: "accepted" | "paid" | "refused" | "returned" | "never seen" | "unknown";
            readonly said_at?: string;
            /** @description The bank's reason, or the stage's. */
            readonly detail?: string;
            readonly paid_at?: string;
            readonly ended_at?: string;
            /** @description The identity of the debit on the bank's statement. */
            readonly debit_line?: string;
            /** @description The identity of the return on the bank's statement. */
            readonly return_line?: string;
            /** @description Why two persons decide: there is a `case` then. */
            readonly trouble?: string;
            readonly case?: {
                readonly number: number;
                readonly trouble: string;
                readonly digest: string;
                readonly verdicts: readonly string[];
            };
            /** @description The last decision of two persons. */
            readonly decided?: {
                readonly [key: string]: string;
            };
        };
        readonly Accepted: {
            readonly key: components["schemas"]["Key"];
            /** @description The same as the header `Location`. */
            readonly status_url: string;
        };
        /** @description As `settlement-outcome.schema.json` says. `replayed` is true of a GET. */
        readonly Outcome: Record<string, never>;
        readonly Statement: {
            readonly account: components["schemas"]["Account"];
            readonly currency: string;
            /** @description The balance now; null for an internal account, which is the sum of its entries. */
            readonly available: string | null;
            /** @description On a stage whose entries expire, the instant from which the statement is complete. */
            readonly complete_since?: string;
            readonly entries: readonly {
                readonly posted_at: string;
                /** @description The key of a settlement, or of an order on the account. */
                readonly key: string;
                readonly step: string;
                readonly change: string;
            }[];
            readonly unreadable: components["schemas"]["Unreadable"];
            readonly cursor: components["schemas"]["Next"];
        };
        /** @description The rows of the page that cannot be read, as they were changed by hand. They are none of its members. */
        readonly Unreadable: readonly {
            /** @description Its name: `SETTLEMENT#` and the key, or the time, key and step of an entry. */
            readonly row: string;
            readonly reason: string;
        }[];
        readonly Journal: {
            readonly entries: readonly {
                readonly posted_at: string;
                /** @description The key of a settlement, or of an order on an account. */
                readonly key: string;
                readonly step: string;
                readonly debit: string;
                readonly credit: string;
                readonly amount: string;
                readonly currency: string;
                readonly request_hash: string;
            }[];
            /** @description What is no entry, or cannot be read: a person looks at it. The other entries are on this page and the next. */
            readonly skipped: readonly {
                readonly object: string;
                /** @description The line of the object; null if it is the whole object. */
                readonly line: number | null;
                readonly reason: string;
            }[];
            /** @description With `more` false, you have all that was sealed before this instant. */
            readonly sealed_until: string;
            /** @description Whether a next page is there already. */
            readonly more: boolean;
            /** @description The cursor behind this page, also if it is the last one: keep it, and ask for what is sealed later. Null if there is nothing yet. */
            readonly cursor: string | null;
        };
        readonly Refusal: {
            /** @enum {unknown} */
            readonly error: "InvalidRequest" | "SettlementNotFound" | "AccountNotFound" | "IdempotencyConflict" | "NotCancellable" | "SequenceChanged" | "PayoutNotFound" | "PayoutRefused" | "DestinationRefused" | "InsufficientFunds" | "AccountFrozen" | "AccountClosed" | "AccountInLimbo" | "CurrencyMismatch" | "StoreUnavailable" | "JournalUnavailable" | "RowDamaged";
            readonly message: string;
        };
    };
    responses: {
        /** @description 400: a parameter, a header or a field is wrong, and named. 404: the key was never claimed, or there is no such account. 409: the key was claimed by a request with other content, or it is too late to cancel. 412: the settlement has another sequence. 422: the account, the bank account or a limit of the stage refuses a payout. 503: the table, or the sealed journal, gives no answer, or the row cannot be read (`RowDamaged`): the outcome is unknown. Send the same request again, and no new key. */
        readonly Refused: {
            headers: {
                readonly [name: string]: unknown;
            };
            content: {
                readonly "application/json": components["schemas"]["Refusal"];
            };
        };
        /** @description AWS refuses the signature or the route. */
        readonly Denied: {
            headers: {
                readonly [name: string]: unknown;
            };
            content?: never;
        };
    };
    parameters: {
        /** @description The `cursor` of the page before, with the same `account`, `status`, `since`, `from` and `to`. */
        readonly Cursor: string;
    };
    requestBodies: never;
    headers: {
        /** @description The sequence of the settlement, in quotes. It never goes down. */
        readonly ETag: string;
        /** @description The path of the outcome, at this address. */
        readonly Location: string;
        /** @description The sequence of the payout, as in its events. It is weak, for a note changes the body alone. */
        readonly PayoutETag: string;
        /** @description The path of the payout, at this address. */
        readonly PayoutLocation: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
