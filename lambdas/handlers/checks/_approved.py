from handlers import _dependencies
from settlement.checks import answers
from settlement.core.model.errors import StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step


def ensure(state: SettlementState) -> None:
    """Raise StepFenced if a check has not approved.

    The KYC provider is asked last. Otherwise its webhook could approve a payment about which it was never
    asked.
    """
    for name in sorted(state.checks):
        evidence = _dependencies.store.evidence(state.key, answers.step_of(name))
        if evidence is None or evidence.get("decision") != answers.APPROVED:
            raise StepFenced(Step.VERIFY, f"the check {name} has not approved the payment")
