"""Inputs that once broke a claim. Add each input that a long run prints."""

from tests.fuzz.cases import Case
from tests.fuzz.mutation import DEEPEST

_SETTLEMENT = (
    '"settlement": {"key": "order-2026-000101", "payer": "alice", "payee": "bob",'
    ' "amount": "48.20", "currency": "EUR", "fee": "0.48"}'
)
_BOTH_DEEP = _SETTLEMENT.replace("alice", DEEPEST).replace("bob", DEEPEST)
_EXECUTION = '"execution": "execution-1", "execution_arn": "arn:execution-1"'
_ORDER = '{"reason": "sent to the wrong shop", "by": "ada"%s}'


def _begun(state: str, more: str) -> Case:
    return Case(
        "begin_compensation", state, f'{{"state": {{{_SETTLEMENT}, {more}}}, "execution": "compensation-2"}}'
    )


KEPT = {
    "two parties nested too deep to be compared": Case(
        "hold_funds", "claimed", f"{{{_BOTH_DEEP}, {_EXECUTION}}}"
    ),
    "an empty resolution of a settlement that is being reversed": _begun("retried", '"resolution": {}'),
    "a resolution of a case that does not exist": _begun(
        "retried", f'"resolution": {_ORDER % """, "decision": "retry", "case": 7"""}'
    ),
    "a cause that is no text": _begun("held", '"error": {"Error": "KycRejected", "Cause": "\\ud800"}'),
    "a cause that becomes no text": Case(
        "reject_settlement",
        "unclaimed",
        f'{{{_SETTLEMENT}, {_EXECUTION}, "error": {{"Error": "InsufficientFunds",'
        ' "Cause": "{\\"errorMessage\\": \\"\\\\udfff\\"}"}}',
    ),
    "a reversal's cause that is no text": Case(
        "enter_limbo",
        "compensating, fee back",
        f'{{{_SETTLEMENT}, "execution": "compensation-1", "case": 1, "reversed": ["fee"],'
        ' "stuck": {"release": {"Error": "\\udfff", "Cause": ""}}}',
    ),
    "an alert's cause that is no text": Case(
        "prepare_alert",
        "LIMBO at release",
        f'{{"state": {{{_SETTLEMENT}, "alerts": 0, "error": {{"Error": "Boom", "Cause": "\\ud800"}}}},'
        ' "execution": "compensation-1", "execution_arn": "arn"}',
    ),
    "a cause nested too deep to be shown": _begun(
        "compensating, fee back",
        f'"error": {{"Error": "KycRejected", "Cause": {{"key": "{DEEPEST}"}}}}, "owner": "execution-1"',
    ),
    "an owner that is no text": _begun(
        "held", '"error": {"Error": "KycRejected", "Cause": ""}, "owner": "\\ud800"'
    ),
    "a fee without the time of its claim": Case(
        "collect_fee", "released", f'{{{_SETTLEMENT}, "execution": "execution-1"}}', anyhow=True
    ),
    "a case whose number is longer than a key": Case(
        "resolve_limbo",
        "retried",
        f'{{{_SETTLEMENT}, "execution": "compensation-1", "case": 1,'
        f' "resolution": {{"case": 1{"0" * 2_000}}}}}',
    ),
    "an order without the execution that carries it out": Case(
        "begin_compensation",
        "settled",
        f'{{"state": {{{_SETTLEMENT}, "order": "reverse"}}}}',
        anyhow=True,
    ),
}
