import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import Settings
from ..state_machines import START, START_AND_WAIT, render_definition

MACHINES = (
    ("SettlementExpress", "settlement", "EXPRESS", START),
    ("SettlementStandard", "settlement", "STANDARD", START_AND_WAIT),
    ("Compensation", "compensation", "STANDARD", START_AND_WAIT),
)
"""Each machine's name, definition, type, and way to start a compensation."""

PAY_OUT = ("PayOut", "pay_out", "STANDARD", START_AND_WAIT)
"""The machine of a stage that pays out. It starts no compensation."""

Template = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Definition:
    machine: str
    text: str
    kind: str
    start: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A saga to deploy. `name` prefixes its physical names; `saga` prefixes its outputs' names."""

    stack: str
    saga: str = ""
    name: str
    reserved: int
    powertools_layer: str | None
    exponents: Mapping[str, int]
    definitions: tuple[Definition, ...]
    template: Template | None = field(default=None, repr=False)


def of_settings(settings: Settings) -> Plan:
    bank = getattr(settings, "payouts", None)
    of_webhook = settings.concurrency.of("BankEvents") if bank and bank.debtor is None else None
    return Plan(
        stack=settings.stack_name,
        name=settings.stack_name,
        reserved=settings.concurrency.reserved + (of_webhook or 0),
        powertools_layer=settings.powertools_layer,
        exponents=settings.exponents,
        definitions=tuple(
            Definition(machine=machine, text=render_definition(name, settings), kind=kind, start=start)
            for machine, name, kind, start in (
                *MACHINES,
                *([PAY_OUT] if bank else ()),
            )
        ),
    )


def of_template(template: Template, stack: str, saga: str) -> Plan:
    resources, outputs = template["Resources"], template["Outputs"]
    functions = list(_properties(template, saga, "AWS::Lambda::Function"))
    layer = next((one["Layers"][0] for one in functions if one.get("Layers")), None)
    return Plan(
        template=template,
        stack=stack,
        saga=saga,
        name=resources[outputs[f"{saga}EventBusName"]["Value"]["Ref"]]["Properties"]["Name"],
        reserved=sum(one.get("ReservedConcurrentExecutions", 0) for one in functions),
        powertools_layer=layer if isinstance(layer, str) else None,
        exponents=json.loads(outputs[f"{saga}StageConfig"]["Value"])["currencies"],
        definitions=tuple(
            Definition(
                machine=machine,
                text=one["DefinitionString"],
                kind=one.get("StateMachineType", "STANDARD"),
                start=one["DefinitionSubstitutions"].get("StartCompensation", START_AND_WAIT),
            )
            for machine, *_ in (*MACHINES, PAY_OUT)
            for one in _properties(template, f"{saga}{machine}", "AWS::StepFunctions::StateMachine")
        ),
    )


def _properties(template: Template, prefix: str, kind: str) -> Iterator[dict[str, Any]]:
    for name, one in template["Resources"].items():
        if one["Type"] == kind and name.startswith(prefix):
            yield one["Properties"]
