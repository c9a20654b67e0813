"""Verdicts for tests, and a provider that gives those that it is told to give."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from settlement.request import Settlement
from settlement.verdict import KycDecision, Verdict

APPROVED = Verdict(
    decision=KycDecision.APPROVED, reference="ver_1", reason="nothing is known", provider="verifications"
)
REJECTED = replace(APPROVED, decision=KycDecision.REJECTED, reason="a listed party")
IN_REVIEW = replace(APPROVED, decision=KycDecision.REVIEW, reason="a person looks at it")


@dataclass
class Provider:
    """Stands in for `_provider.ask`: answers with `answer`, or raises it; remembers who was asked about.

    `meanwhile` happens while the provider thinks: after it was asked, before it answers.
    """

    answer: Verdict | Exception = APPROVED
    asked: list[str] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def ask(self, settlement: Settlement) -> Verdict:
        self.asked.append(settlement.key)
        self.meanwhile()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
