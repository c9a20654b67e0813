"""The attributes that the reconciliation judges: no other leaves the table.

Names, reasons and tokens are among them, because the hash of the content and the evidence cannot be judged
without them. They are compared when their row is read, and neither kept, spooled nor told.
"""

from settlement.ledger.expiry import EXPIRES
from settlement.model.settlement import FIELDS
from settlement.model.status import REVERSIBLE, Step
from settlement.reconciliation.settlement_row import NAMES_ERASED
from settlement.sealing.signature import SIGNATURE

_PROOF = ("user_id", "request_id", "source_ip", "approved_by", "approved_in", "break_glass")
"""What an order has beside its person's ARN: its row's signature covers it."""

PRIVATE = (
    *("payer_name", "payee_name", "reason", "by", *_PROOF),
    *("proposer", "proposed_by", "persons"),
    *("error", "cause", "token", "failure", "reversed_for", "reference", "metadata"),
)
"""What is read of a row, but never kept or told: personal data, free text, and secrets."""

_KEY = ("pk", "sk")
_SETTLEMENT = (
    *(name for name in FIELDS if name != "key"),
    *("request_hash", "status", "escrow", "owner", "owner_epoch", "claimed_at", "deadline_at"),
    *(step.slot for step in Step),
    *(step.reversal_slot for step in REVERSIBLE),
    *("gsi1pk", "gsi1sk", "in_flight_since", "recover_at", "expired_at", "deadline_extended_at"),
    *("finished_at", "verdict", "review", "failure", "reversed_for", "stuck_step", "resolutions"),
    *("resolution", "parts", "reversals_in_part", "layout", "reversed_in_part", "sequence", NAMES_ERASED),
)
_ENTRY = ("step", "posted_at", "debit", "credit", "side")
_EVIDENCE = ("decision", "provider", "reference", "reason", "by", *_PROOF, "account", "error", "cause")
_ACCOUNT = ("available", "limbo_cases", "opened_at", "frozen_at", "closed_at", "last_order")
_OTHERS = (
    *("order", "reference", SIGNATURE),
    *("version", "folded", "key", "case", "token", "execution", "digest", "received_at"),
    *("seen", "proposer", "proposed_by", "proposed_at", "valid_until", "needed", "approvals", "persons"),
    *("proposal_number", "part"),
    *("direction", "phase", "runner", "leased_until", "began_at", "deployment", "after_pk", "after_sk"),
    *("read", "changed", "left"),
    *("state", "failure_count", "opened_at", "failed_at", "not_needed_after", "probed_at"),
    *("failed", "probe", "probe_lease_expiry", "half_open_owner", EXPIRES),
)

JUDGED = tuple(dict.fromkeys((*_KEY, *_SETTLEMENT, *_ENTRY, *_EVIDENCE, *_ACCOUNT, *_OTHERS)))
