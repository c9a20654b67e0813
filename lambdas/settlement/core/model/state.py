from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from settlement.core.model import money
from settlement.core.model.layout import FIRST, ensure_read, parts_of
from settlement.core.model.saga import REVERSIBLE, SAGA, Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow, exponent_of, sound, subject_of

CANCELLED = "Cancelled"
"""Error name of a settlement that its starter cancelled."""


@dataclass(frozen=True, kw_only=True)
class SettlementState:
    """A settlement's row. Times are UTC timestamps as stored; money is in minor units.

    - `steps`: the committed steps, with the times of their commits.
    - `reversed`: the steps reversed or written off, with the times.
    - `owner`: the execution that runs the settlement.
    - `owner_epoch`: counts the owners that recovery and the webhook named. It keeps execution names new.
    - `listed_at`: the sort key in the index: the time of recovery's next look. In LIMBO: the start of the
      case. Once finished: None.
    - `expired_at`: when recovery expired the settlement.
    - `deadline_extended_at`: when recovery last extended the deadline, because it came late.
    - `verdict`: the KYC provider's decision.
    - `review`: the reference of an open verification.
    - `resolutions`: the number of closed LIMBO cases. `resolution` is the latest decision.
    - `stuck_step`: the reversal that is stuck.
    - `sequence`: the number of the latest event.
    - `layout`: determines the steps.
    - `parts`: the number of reversals in part, which gave back `reversed_in_part`.
    - `checks`: the stage's own checks at the claim. All must approve before the release.
    """

    settlement: Settlement
    request_hash: str
    status: Status
    steps: Mapping[str, str] = field(default_factory=dict)
    reversed: Mapping[str, str] = field(default_factory=dict)
    escrow: int
    owner: str
    owner_epoch: int
    claimed_at: str
    deadline_at: str
    listed_at: str | None = None
    in_flight_since: str | None = None
    recover_at: str | None = None
    expired_at: str | None = None
    deadline_extended_at: str | None = None
    finished_at: str | None = None
    verdict: str | None = None
    review: str | None = None
    failure: Mapping[str, str] | None = None
    reversed_for: Mapping[str, str] | None = None
    stuck_step: str | None = None
    resolutions: int = 0
    resolution: Mapping[str, str] | None = None
    parts: int = 0
    reversed_in_part: int = 0
    sequence: int = 0
    checks: Set[str] = frozenset()
    layout: int = field(default=FIRST, compare=False)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "SettlementState":
        """Parse a settlement's row. Raises MalformedRow."""
        row = sound(row)
        try:
            ensure_read(row)
            return cls(
                settlement=Settlement(
                    key=row["pk"].partition("#")[2],
                    payer=row["payer"],
                    payee=row["payee"],
                    amount=row["amount"],
                    currency=row["currency"],
                    fee=row["fee"],
                    deadline_seconds=row.get("deadline_seconds"),
                    payer_name=row.get("payer_name"),
                    payee_name=row.get("payee_name"),
                    reference=row.get("reference"),
                    metadata=row.get("metadata"),
                ),
                status=Status(row["status"]),
                steps={step: row[slot] for step, slot in _SLOTS if slot in row},
                reversed={step: row[slot] for step, slot in _REVERSAL_SLOTS if slot in row},
                listed_at=row.get("gsi1sk"),
                resolutions=row.get("resolutions", 0),
                parts=parts_of(row),
                reversed_in_part=row.get("reversed_in_part", 0),
                sequence=row.get("sequence", 0),
                checks=row.get("checks", frozenset()),
                layout=row.get("layout", FIRST),
                **{name: row[name] for name in _REQUIRED},
                **{name: row.get(name) for name in _OPTIONAL},  # type: ignore[arg-type]
            )
        except MalformedRow:
            raise
        except ValueError as error:
            raise MalformedRow(f"{subject_of(row)}: {error}") from None

    @property
    def key(self) -> str:
        return self.settlement.key

    @property
    def following(self) -> Step | None:
        """The next step to commit; None after the layout's last step."""
        return next((step for step in Step if self.takes(step) and step not in self.steps), None)

    def takes(self, step: Step) -> bool:
        return SAGA[step].since <= self.layout

    def is_decided(self, step: Step) -> bool:
        """Whether `step` was decided. A refusal decides without a commit."""
        decides = SAGA[step].decides
        return decides is not None and getattr(self, decides) is not None

    @property
    def is_released(self) -> bool:
        """Whether the release committed. After it, a settlement only runs forward."""
        return Step.RELEASE in self.steps

    @property
    def is_in_review(self) -> bool:
        return self.review is not None

    @property
    def is_cancelled(self) -> bool:
        return (self.reversed_for or self.failure or {}).get("error") == CANCELLED

    @property
    def is_expired(self) -> bool:
        return self.expired_at is not None

    @property
    def covered(self) -> frozenset[str]:
        """The reversed steps that the losses account paid, by write-offs in all cases so far."""
        return frozenset((self.resolution or {}).get("covered", "").split())

    @property
    def is_given_back(self) -> bool:
        return bool(self.parts) and self.reversed_in_part >= self.settlement.net

    @property
    def case_number(self) -> int:
        """Number of the open LIMBO case. Without an open case: the number of the next case."""
        return self.resolutions + 1

    @property
    def next_part(self) -> int:
        return self.parts + 1

    @property
    def unreversed(self) -> list[Step]:
        """Committed steps that moved money, in reversal order."""
        return [step for step in REVERSIBLE if step in self.steps and step not in self.reversed]

    def same_request(self, settlement: Settlement) -> bool:
        return self.request_hash == settlement.request_hash


@dataclass(frozen=True, kw_only=True)
class AccountState:
    """A customer's balance row. `available` is in minor units.

    `limbo_cases` counts the open cases, which block the account. Orders set `frozen_at` and `closed_at`;
    None means not frozen, or not closed.
    """

    account: str
    available: int
    currency: str
    limbo_cases: int = 0
    opened_at: str | None = None
    frozen_at: str | None = None
    closed_at: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "AccountState":
        """Parse a balance row. Raises MalformedRow."""
        row = sound(row)
        return cls(
            account=row["pk"].partition("#")[2],
            available=row["available"],
            currency=row["currency"],
            limbo_cases=row.get("limbo_cases", 0),
            **{name: row.get(name) for name in _TIMES},
        )

    @property
    def is_blocked(self) -> bool:
        return self.limbo_cases != 0

    @property
    def is_frozen(self) -> bool:
        return self.frozen_at is not None

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None

    def exponent(self, config: StageConfig) -> int:
        return exponent_of("ACCOUNT", self.currency, config)

    def to_wire(self, config: StageConfig) -> dict[str, Any]:
        times = {name: value for name in _TIMES if (value := getattr(self, name)) is not None}
        return {
            "account": self.account,
            "currency": self.currency,
            "available": money.render(self.available, self.exponent(config)),
            "in_limbo": self.is_blocked,
            **times,
        }


_TIMES = ("opened_at", "frozen_at", "closed_at")

_SLOTS = tuple((step.value, step.slot) for step in Step)
_REVERSAL_SLOTS = tuple((step.value, step.reversal_slot) for step in Step)
_REQUIRED = ("request_hash", "escrow", "owner", "owner_epoch", "claimed_at", "deadline_at")
_OPTIONAL = (
    *("in_flight_since", "recover_at", "expired_at", "finished_at", "verdict", "review"),
    *("failure", "reversed_for", "stuck_step", "resolution", "deadline_extended_at"),
)
