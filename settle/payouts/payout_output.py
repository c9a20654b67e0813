from collections.abc import Mapping, Sequence
from typing import Any

from settle.output.console import note, or_json, print_line, print_record, print_table

_APART = ("case", "decided", "entries", "next", "unreadable")
_ENTRY = ("posted_at", "step", "moved", "amount")


@or_json
def started(told: Mapping[str, Any]) -> None:
    if "error" in told:
        note(f"{told['key']}: {told['error']}: {told['message']}")
        return
    money = f"{told['amount']} {told['currency']} of {told['account']} to {told['destination']}"
    replay = ", which was started before" if told["replayed"] else ""
    print_line(f"{told['key']}: {told['status']}, {money}{replay}")


@or_json
def payout(told: Mapping[str, Any]) -> None:
    print_record({name: value for name, value in told.items() if name not in _APART})
    if told.get("entries"):
        print_line()
        print_table(told["entries"], _ENTRY, right=("amount",))
    if "next" in told:
        print_line()
        print_line(told["next"]["reason"])
    if decided := told.get("decided"):
        print_line()
        print_line(f"decided of case {decided['case']}: {_decided(decided)}")
    if case := told.get("case"):
        print_line()
        _case(case)


@or_json
def proposed(told: Mapping[str, Any]) -> None:
    apart = ("case", "decided", "next", "verdict", "proposed_by", "approve")
    print_record({name: value for name, value in told.items() if name not in apart})
    case = told["case"]
    print_line()
    print_line(f"case {case['number']}: {case['trouble']}")
    print_line(f"{told['verdict']} is proposed by {told['proposed_by']}; another person approves it:")
    print_line(f"  {told['approve']}")


@or_json
def approved(told: Mapping[str, Any]) -> None:
    print_line(f"{told['key']}: {told['verdict']} of case {told['case']}, approved by {told['approved_by']}")
    if "payout" not in told:
        print_line(f"not carried out yet ({told.get('not_yet')}): FollowPayouts does so within a minute")
        return
    payout(told["payout"], False)


@or_json
def listed(lines: Sequence[Mapping[str, Any]], fields: Sequence[str], nothing: str) -> None:
    if lines:
        print_table(lines, fields, right=("amount",))
    else:
        print_line(nothing)


def _decided(decided: Mapping[str, str]) -> str:
    """Render a decision. The stack's answers have the verdict alone, without persons and reason."""
    to = f" to {decided['account']}" if "account" in decided else ""
    what = f"{decided['verdict']}{to}{_against(decided)}"
    if "by" not in decided:
        return what
    by, second, at, reason = (decided[name] for name in ("by", "approved_by", "approved_at", "reason"))
    return f"{what}, by {by} and {second} at {at}: {reason}"


def _against(told: Mapping[str, str]) -> str:
    return " against the bank" if "contradicts" in told else ""


def _case(case: Mapping[str, Any]) -> None:
    since = f" since {case['since']}" if "since" in case else ""
    print_line(f"case {case['number']}{since}: {case['trouble']}")
    print_line(f"  digest {case['digest']}")
    if approved := case.get("approved"):
        print_line(f"approved: {_decided(approved)}")
        print_line(f"  FollowPayouts carries it out within a minute; at once: {case['ask']}")
    for one in case["verdicts"]:
        if isinstance(one, Mapping):
            _verdict(one)


def _verdict(one: Mapping[str, Any]) -> None:
    against = f" (contradicts the bank, which said {one['contradicts']})" if one["contradicts"] else ""
    print_line()
    print_line(f"{one['verdict']}: {one['effect']}{against}")
    if proposed := one["proposed"]:
        at = f"{proposed['posted_at']}{_against(proposed)}"
        print_line(f"  proposed by {proposed['by']} at {at}: {proposed['reason']}")
    if one["command"]:
        print_line(f"  {one['command']}")
