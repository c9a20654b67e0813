// Made by generate.mjs from docs/contracts. Do not edit: `npm run generate` writes it anew.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Settlement outcome
         * @description The state of a settlement: the output of an execution of either settlement machine that has SUCCEEDED. Open: more fields may come, ignore unknown ones. A field that is here stays and keeps its meaning.
         */
        readonly outcome: {
            /** @description The request's idempotency key. It starts with minted- if the stage accepts requests without a key, and this one had none. */
            readonly key: string;
            /**
             * @description PROCESSING: in flight, or in review. SETTLED: paid, less what was reversed in part. REJECTED: refused before anything was held. COMPENSATING: being reversed, or about to be: an Express execution answers before its reversal begins. COMPENSATED: the payer has everything back, of the payee or, as `covered` says, of the losses. LIMBO: a reversal is stuck, and a person is paged. SETTLED, REJECTED and COMPENSATED are final, except that a person may order the reversal of a SETTLED payment.
             * @enum {unknown}
             */
            readonly status: "PROCESSING" | "SETTLED" | "REJECTED" | "COMPENSATING" | "COMPENSATED" | "LIMBO";
            /** @description Id of the paying account. */
            readonly payer: string;
            /** @description Id of the receiving account. */
            readonly payee: string;
            /** @description The amount that the payer pays, in units of the currency, with all of its decimals. */
            readonly amount: components["schemas"]["amount"];
            /** @description The fee withheld from the amount: the request's, or the one of the stage's schedule. */
            readonly fee: components["schemas"]["amount"];
            /** @description ISO 4217 code, or an asset of the stage. */
            readonly currency: string;
            /** @description The amount held at this moment: neither the payer's nor the payee's. Zero once the status is final. */
            readonly escrow: components["schemas"]["amount"];
            /** @description The committed steps, in their order. */
            readonly steps: readonly ("hold" | "verify" | "release" | "fee")[];
            /** @description The steps that have been reversed, or covered by the losses on a person's decision; in no order. */
            readonly reversed: readonly ("hold" | "release" | "fee")[];
            /** @description Why the payment does not settle; null exactly if the status is PROCESSING or SETTLED. */
            readonly failure: null | components["schemas"]["failure"];
            /** @description What the caller should do now. A program may act on `action` alone: none of them pays twice. */
            readonly next: components["schemas"]["next"];
            /** @description Whether this execution has only read the settlement: another one had claimed the key before. */
            readonly replayed: boolean;
            /** @description The time of the claim. The deadline counts from here. */
            readonly claimed_at: components["schemas"]["instant"];
            /** @description The time at which the status became final; null before. */
            readonly finished_at: null | components["schemas"]["instant"];
            /** @description The reversed steps whose money the losses have covered, on a person's decision: `release` means that the payee keeps the money, while the payer has everything back. Only if there are any. */
            readonly covered?: readonly ("release" | "fee")[];
            /** @description What the payer has back in parts, on people's orders, of what was released. Only of a SETTLED one of which a part was reversed. */
            readonly reversed_in_part?: components["schemas"]["amount"];
            /** @description The caller's own name of the payment, if the request has it. */
            readonly reference?: string;
            /** @description The caller's own data, if the request has it: texts by name. */
            readonly metadata?: {
                readonly [key: string]: string;
            };
        };
        readonly amount: string;
        /**
         * Format: date-time
         * @description An instant in UTC, to the millisecond.
         */
        readonly instant: string;
        readonly failure: {
            /**
             * @description The failed step.
             * @example hold
             */
            readonly step: string;
            /**
             * @description The error's name, for programs. New ones may come.
             * @example InsufficientFunds
             */
            readonly error: string;
            /** @description The error in words, for people. */
            readonly cause: string;
        };
        readonly next: {
            /**
             * @description nothing: it is done. same_key: it may still go through; ask again later with the same key, or wait for the event, and never use a new key. new_key: this key never pays any more; to pay after all, use a new one. A payment that a person has reversed has nothing: that a program pays it again would undo the order.
             * @enum {unknown}
             */
            readonly action: "nothing" | "same_key" | "new_key";
            /** @description The reason in words, for people. */
            readonly reason: string;
        };
        /**
         * Settlement event
         * @description The detail of an event on the outcome bus, source settlement: a CloudEvent 1.0 in structured JSON. It is a snapshot of a settlement after a change, named after the change; its detail-type is `type`. An event comes at least once, and events come in no order. Open: more fields may come, ignore unknown ones.
         */
        readonly event: {
            /**
             * @description The version of CloudEvents.
             * @constant
             */
            readonly specversion: "1.0";
            /** @description The key and the number, the same whenever the event comes again. */
            readonly id: string;
            /**
             * @description The stack.
             * @example settlement-prod
             */
            readonly source: string;
            /**
             * @description What the change was. Act on `data.status`, not on this: a change may make two things true.
             * @enum {unknown}
             */
            readonly type: "settlement.claimed" | "settlement.held" | "settlement.in_review" | "settlement.verified" | "settlement.released" | "settlement.settled" | "settlement.rejected" | "settlement.compensating" | "settlement.reversal_ordered" | "settlement.fee_refunded" | "settlement.reclaimed" | "settlement.compensated" | "settlement.limbo" | "settlement.resolved" | "settlement.reversed_in_part" | "settlement.snapshot";
            /** @description The settlement's idempotency key. */
            readonly subject: string;
            /**
             * Format: date-time
             * @description The time of the change, in UTC; of a snapshot, the time of its reading.
             */
            readonly time: string;
            /**
             * @description The form of `data`.
             * @constant
             */
            readonly datacontenttype: "application/json";
            /** @description The number of the event among those of this settlement: 1, 2, 3 and so on, without a gap. A snapshot has that of the latest event. */
            readonly sequence: string;
            /**
             * @description CloudEvents' name for such numbers.
             * @constant
             */
            readonly sequencetype: "Integer";
            /**
             * @description Of a snapshot alone: a person has ordered it.
             * @constant
             */
            readonly replayed?: true;
            /** @description The outcome of the settlement after the change. */
            readonly data: components["schemas"]["outcome"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
