"""A typed client of a settlement stack: start, wait, status, and an inbox of its events."""

from settlement_client.client import Client
from settlement_client.errors import (
    IdempotencyConflict,
    InvalidRequest,
    MalformedAnswer,
    NotCancellable,
    NotFound,
    PayoutRefused,
    Refused,
    SequenceChanged,
    SettlementClientError,
    Unavailable,
    Unknown,
)
from settlement_client.inbox import Arrival, DynamoDbInbox, Event, Store, parse_event
from settlement_client.journal import JournalEntry, JournalPage, Skipped
from settlement_client.outcome import Action, Failure, Next, Outcome, Status
from settlement_client.payout import Payout, PayoutOutcome, PayoutStatus
from settlement_client.reading import Reading
from settlement_client.request import Request, mint_key

__all__ = [
    "Action",
    "Arrival",
    "Client",
    "DynamoDbInbox",
    "Event",
    "Failure",
    "IdempotencyConflict",
    "InvalidRequest",
    "JournalEntry",
    "JournalPage",
    "MalformedAnswer",
    "Next",
    "NotCancellable",
    "NotFound",
    "Outcome",
    "Payout",
    "PayoutOutcome",
    "PayoutRefused",
    "PayoutStatus",
    "Reading",
    "Refused",
    "Request",
    "SequenceChanged",
    "SettlementClientError",
    "Skipped",
    "Status",
    "Store",
    "Unavailable",
    "Unknown",
    "mint_key",
    "parse_event",
]
