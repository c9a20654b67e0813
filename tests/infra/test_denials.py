from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from infra.grants import MONEY_ATTRIBUTES
from infra.table import IMMUTABLE_ATTRIBUTES
from infra.trials import FUNCTIONS, Decision, trials
from settle.acceptance import denials
from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted
from settle.exit_codes import CommandFailed, Exit
from settle.local import grants
from settle.stack import Stack
from tests.infra.evaluator import ATTRIBUTES, ENCLOSING, LEADING, Request, applies, policy
from tests.infra.stack import ON_AWS, each_stage_on_aws

Statements = list[dict[str, Any]]
Plant = Callable[[Statements], object]

OUTPUTS = {
    "TableName": "table",
    "SettlementStandardArn": "arn:aws:states:eu-central-1:111122223333:stateMachine:standard",
}


class Simulator(Stack):
    """A stack with simulated IAM; `plant` can change one function's policy."""

    def __init__(self, stage: str, spoilt: str = "", plant: Plant = lambda statements: None) -> None:
        self.__dict__.update(name="settlement-test", outputs=OUTPUTS, endpoint_url=None)
        self.policies = {name: deepcopy(policy(stage, name)) for name in FUNCTIONS}
        if spoilt:
            plant(self.policies[spoilt])

    def client(self, service: str, attempts: int = 5) -> Any:
        assert service == "iam"
        return self

    def simulate_principal_policy(self, **asked: Any) -> dict[str, Any]:
        arn, _, function = asked["PolicySourceArn"].rpartition("/")
        assert (arn, asked["ResourceArns"]) == (
            "arn:aws:iam::111122223333:role",
            ["arn:aws:dynamodb:eu-central-1:111122223333:table/table"],
        )
        context = {one["ContextKeyName"]: tuple(one["ContextKeyValues"]) for one in asked["ContextEntries"]}
        return {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": self._decision(function, action, context)}
                for action in asked["ActionNames"]
            ]
        }

    def _decision(self, function: str, action: str, context: dict[str, tuple[str, ...]]) -> Decision:
        request = Request(action, "${LedgerTable.Arn}", context)
        effects = {one["Effect"] for one in self.policies[function] if applies(one, request)}
        if "Deny" in effects:
            return Decision.DENIED
        return Decision.ALLOWED if effects else Decision.NOT_GRANTED


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "physical", lambda stack, kind: {f"{name}Role": name for name in FUNCTIONS})


@each_stage_on_aws
def test_each_role_of_a_stage_does_exactly_its_granted_actions(stage: str) -> None:
    evidence = denials.denials(Run(Simulator(stage)))

    counts = [decision is Decision.ALLOWED for trial in trials() for decision in trial.wanted.values()]
    assert evidence.startswith(f"{len(FUNCTIONS)} roles, ")
    assert evidence.endswith(f"{sum(counts)} actions allowed as granted, {counts.count(False)} refused")


def _conditions(statements: Statements, key: str) -> Any:
    return next(
        operator for one in statements for operator in one.get("Condition", {}).values() if key in operator
    )


def _without_denials(statements: Statements) -> None:
    statements[:] = [one for one in statements if one["Effect"] == "Allow"]


def _without_grants(statements: Statements) -> None:
    statements[:] = [one for one in statements if one["Effect"] == "Deny"]


def _without(key: str) -> Plant:
    return lambda statements: _conditions(statements, key).pop(key)


def _without_an_attribute(attribute: str) -> Plant:
    def plant(statements: Statements) -> None:
        for one in statements:
            for operator in one.get("Condition", {}).values():
                if attribute in operator.get(ATTRIBUTES, ()):
                    operator[ATTRIBUTES].remove(attribute)

    return plant


def _with(**statement: Any) -> Plant:
    return lambda statements: statements.append({"Effect": "Allow", "Resource": "*", **statement})


@pytest.mark.parametrize(
    ("function", "plant", "told"),
    [
        ("VerifyKyc", _with(Action="dynamodb:*"), "VerifyKyc: BatchGetItem is allowed with LeadingKeys"),
        ("ReleaseFunds", _with(Action="dynamodb:DeleteItem"), "ReleaseFunds: DeleteItem is allowed"),
        ("ReportOutcome", _with(Action=["dynamodb:PutItem"]), "ReportOutcome: PutItem is allowed"),
        ("HoldFunds", _without(LEADING), "HoldFunds: GetItem is allowed with LeadingKeys BANKED"),
        ("VoidHold", _without(ENCLOSING), "VoidHold: PutItem is allowed with LeadingKeys ENTRIES#acceptance"),
        ("EnterLimbo", _without_denials, "EnterLimbo: UpdateItem is allowed"),
        ("CollectFee", _without_grants, "CollectFee: PutItem is implicitDeny"),
        *(
            ("KycDecided", _without_an_attribute(one), f"Attributes pk+sk+{one}")
            for one in sorted({*MONEY_ATTRIBUTES} - {"hold_at", "verify_at"})
        ),
    ],
)
def test_the_denials_check_fails_on_a_planted_fault(function: str, plant: Plant, told: str) -> None:
    with pytest.raises(Refuted) as refuted:
        denials.denials(Run(Simulator(ON_AWS[0], function, plant)))

    assert told in str(refuted.value)
    assert f"{function}: " in str(refuted.value)


def test_the_denials_check_tries_another_immutable_attribute_per_function() -> None:
    tried = {
        trial.context[ATTRIBUTES][-1] for trial in trials() if trial.wanted == {"UpdateItem": "explicitDeny"}
    }

    assert tried <= set(IMMUTABLE_ATTRIBUTES)
    assert len(tried) == min(len(IMMUTABLE_ATTRIBUTES), len(FUNCTIONS))


def test_the_denials_check_fails_if_a_role_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "physical", lambda stack, kind: {})

    with pytest.raises(Refuted, match="HoldFunds: the stack has no role of this function"):
        denials.denials(Run(Simulator(ON_AWS[0])))


def test_the_denials_check_is_not_applicable_outside_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks() -> None:
        raise CommandFailed(Exit.FAILED, "the table of grants: run it in a checkout")

    monkeypatch.setattr(grants, "trials", lacks)

    with pytest.raises(NotApplicable, match="in a checkout"):
        denials.denials(Run(Simulator(ON_AWS[0])))
