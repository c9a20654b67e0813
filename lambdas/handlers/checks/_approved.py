from handlers import _dependencies
from settlement.checks import answers
from settlement.core.model.errors import StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step


def ensure(state: SettlementState) -> None:
    """Raise StepFenced if a check has not approved.

    The KYC provider is asked only after the checks, so its webhook must not approve a payment before them.
    """
    for name in sorted(state.checks):
        evidence = _dependencies.store.evidence(state.key, answers.step_of(name))
        if evidence is None or evidence.get("decision") != answers.APPROVED:
            raise StepFenced(Step.VERIFY, f"the check {name} has not approved the payment")
