"""Pages that show, confirm and order decisions on cases of LIMBO and on proposals.

decide ─▶ what is possible, with its amounts ─▶ weigh ─▶ the reason ─▶ confirm ─▶ the orders' API
                                                  └── a proposal, and a retry ──────▶┘
"""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from settle.arguments import check_key
from settle.console.context import Console
from settle.console.respond import onward, shown
from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order
from settle.orders import limbo, resolution
from settle.orders import proposal as proposals
from settle.orders import proposing as proposed
from settle.settlements.settlement import state_of
from settlement.core.model import money
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.http.caller import person_of
from settlement.orders import approval
from settlement.orders.proposal import Move
from settlement.orders.requests import REVERSE_PART, parse_resolution

RESOLVE = "resolve"
_VERBS = (RESOLVE, Move.PROPOSE.value)
_NUMBER_DIGITS_MAX = 10


def decide(console: Console, request: Request) -> Response:
    key = check_key(request.path_params["key"])
    state = state_of(console.stack, key)
    case = limbo.show(console.stack, key) if state.status is Status.LIMBO else None
    found = proposals.open_on(console.stack, state).get("proposal")
    values: dict[str, Any] = {
        "key": key,
        "status": state.status.value,
        "case": case,
        "offers": list(_offers(console, state, case, found is not None)) if case else [],
        "proposal": found,
        "effect": found and _effect_of(console, state, found),
        "moves": _moves(console, key, found["decision"]) if found else {},
    }
    return shown("decide.html", console.frame(request), **values)


def _offers(
    console: Console, state: SettlementState, case: Mapping[str, Any], is_proposed: bool
) -> Iterator[dict[str, Any]]:
    possible = {
        one["decision"]: _verbs(console, state, one["decision"], is_proposed) if one["command"] else ()
        for one in case["decisions"]
    }
    routes = [_route(decision, verb) for decision, verbs in possible.items() for verb in verbs]
    allowed = console.allowed.of(routes)
    for one in case["decisions"]:
        verbs = [verb for verb in possible[one["decision"]] if _route(one["decision"], verb) in allowed]
        persons = approval.needed(state, one["decision"], console.stack.config)
        yield {**one, "persons": persons, "verbs": verbs}


def _verbs(console: Console, state: SettlementState, decision: str, is_proposed: bool) -> tuple[str, ...]:
    alone = approval.needed(state, decision, console.stack.config) == 1
    return (*((RESOLVE,) if alone else ()), *(() if is_proposed else (Move.PROPOSE.value,)))


def _route(decision: str, verb: str) -> str:
    return decision if verb == RESOLVE else f"{decision}/{verb}"


def _moves(console: Console, key: str, decision: str) -> dict[str, str]:
    """Return, for approve and withdraw, why this person may not do it. Empty: the person may."""
    latest = proposals.latest(console.stack, key)
    routes = {move: f"{decision}/{move}" for move in (Move.APPROVE.value, Move.WITHDRAW.value)}
    allowed = console.allowed.of(routes.values())
    why = {
        move: "" if route in allowed else f"Your AWS identity may not {move} it."
        for move, route in routes.items()
    }
    if latest and console.person and person_of(console.person) in latest.persons:
        why[Move.APPROVE.value] = "You take part in it already: another person approves it."
    return why


def _effect_of(console: Console, state: SettlementState, proposal: Mapping[str, Any]) -> str:
    if proposal["decision"] == REVERSE_PART:
        one, amount = state.settlement, f"{proposal['amount']} {proposal['currency']}"
        return (
            f"gives {amount} back to {one.payer}, from {one.payee}, as part {proposal['part']}; the fee stays"
        )
    return _effect(console, state, proposal["decision"])


def _effect(console: Console, state: SettlementState, decision: str) -> str:
    if decision == REVERSE:
        one = state.settlement
        exponent = one.exponent(console.stack.config)
        whole, fee, net = (
            money.render(part, exponent) for part in (one.amount, one.fee, one.amount - one.fee)
        )
        return (
            f"refunds {whole} {one.currency} to {one.payer}: {net} from {one.payee} and the fee of {fee},"
            " as far as they were booked"
        )
    shown_case = limbo.show(console.stack, state.key)
    return str(next(one["effect"] for one in shown_case["decisions"] if one["decision"] == decision))


def weigh(console: Console, request: Request) -> Response:
    key, decision = check_key(request.path_params["key"]), _decision(request)
    verb = _one_of("verb", request.query_params.get("verb", ""), _VERBS)
    case = limbo.show(console.stack, key)
    effect = _effect(console, state_of(console.stack, key), decision)
    values: dict[str, Any] = {
        "key": key,
        "decision": decision.value,
        "verb": verb,
        "case": case,
        "effect": effect,
    }
    return shown("weigh.html", console.frame(request), **values)


def order(console: Console, request: Request) -> Response:
    """Give an order. Irreversible decisions are confirmed first."""
    key, decision, fields = check_key(request.path_params["key"]), _decision(request), request.state.fields
    verb = _one_of("verb", fields.get("verb", ""), _VERBS)
    case, reason = _number(fields, "case"), fields.get("reason", "")
    check_order(parse_resolution, {"key": key, "case": case, "decision": decision, "reason": reason})
    if verb == Move.PROPOSE:
        proposed.propose(console.stack, key, decision, reason, case)
        return onward(f"/settlements/{key}/decide")
    if decision is not Decision.RETRY and fields.get("confirmed") != decision:
        facts = _facts(console, key, decision, {"case": str(case), "reason": reason})
        sent = {"verb": verb, "case": str(case), "reason": reason, "confirmed": decision.value}
        return _confirm(console, request, f"{decision} case {case} of {key}", facts, sent)
    resolution.resolve(console.stack, key, decision, reason, case)
    return onward(f"/settlements/{key}")


def approve(console: Console, request: Request) -> Response:
    """Approve the shown proposal, after a confirmation.

    The confirmed fields and digest are sent as shown, without a new look-up.
    """
    key, shown = check_key(request.path_params["key"]), _shown(request.state.fields)
    decision, digest = shown["decision"], shown["digest"]
    if request.state.fields.get("confirmed") != digest:
        told = proposals.open_on(console.stack, state_of(console.stack, key)).get("proposal")
        if told is None or (told["digest"], told["decision"]) != (digest, decision):
            raise CommandFailed(Exit.CONFLICT, "proposal: it is no longer the open one; look at it again")
        more = {name: str(told[name]) for name in ("reason", "proposed_by", "approvals", "valid_until")}
        facts = {"decision": decision, "effect": _effect_now(console, key, told), **more, "digest": digest}
        sent = {name: str(value) for name, value in shown.items()} | {"confirmed": digest}
        return _confirm(console, request, f"approve {decision} of {key}", facts, sent)
    proposed.approve(console.stack, key, shown)
    return onward(f"/settlements/{key}")


def withdraw(console: Console, request: Request) -> Response:
    key = check_key(request.path_params["key"])
    proposed.withdraw(console.stack, key, _shown(request.state.fields))
    return onward(f"/settlements/{key}/decide")


def _facts(console: Console, key: str, decision: str, more: Mapping[str, str]) -> dict[str, str]:
    return {"decision": decision, "effect": _effect_now(console, key, {"decision": decision}), **more}


def _effect_now(console: Console, key: str, wanted: Mapping[str, Any]) -> str:
    state = state_of(console.stack, key)
    if wanted["decision"] not in (REVERSE, REVERSE_PART) and state.status is not Status.LIMBO:
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {state.status}, not in LIMBO")
    return _effect_of(console, state, wanted)


def _confirm(
    console: Console, request: Request, what: str, facts: Mapping[str, str], sent: Mapping[str, str]
) -> Response:
    back = f"/settlements/{request.path_params['key']}/decide"
    values: dict[str, Any] = {"what": what, "facts": facts, "sent": sent, "back": back}
    return shown("confirm.html", console.frame(request), **values)


def _decision(request: Request) -> Decision:
    return Decision(_one_of("decision", request.path_params["decision"], list(Decision)))


def _shown(fields: Mapping[str, str]) -> dict[str, Any]:
    decision = _one_of("decision", fields.get("decision", ""), (*Decision, REVERSE, REVERSE_PART))
    shown: dict[str, Any] = {"decision": decision, "digest": fields.get("digest", "")}
    shown |= {name: _number(fields, name) for name in ("case", "part") if name in fields}
    return shown | ({"amount": fields["amount"]} if "amount" in fields else {})


def _one_of(name: str, value: str, names: tuple[str, ...] | list[Decision]) -> str:
    if value not in names:
        raise CommandFailed(Exit.USAGE, f"{name}: must be one of {', '.join(names)}")
    return value


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX):
        raise CommandFailed(Exit.USAGE, f"{name}: must be the number that was shown")
    return int(text)
