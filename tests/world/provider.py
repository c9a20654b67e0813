from collections.abc import Callable
from dataclasses import dataclass, field, replace

from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import KycDecision, Verdict

APPROVED = Verdict(
    decision=KycDecision.APPROVED, reference="ver_1", reason="nothing is known", provider="verifications"
)
REJECTED = replace(APPROVED, decision=KycDecision.REJECTED, reason="a listed party")
IN_REVIEW = replace(APPROVED, decision=KycDecision.REVIEW, reason="a person looks at it")


@dataclass
class Provider:
    """A stand-in for `_kyc.ask`: returns or raises `answer`, and records keys.

    It calls `meanwhile` before the answer.
    """

    answer: Verdict | Exception = APPROVED
    asked: list[str] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def ask(self, settlement: Settlement, context: object = None) -> Verdict:
        self.asked.append(settlement.key)
        self.meanwhile()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
