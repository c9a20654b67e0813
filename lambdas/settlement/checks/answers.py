"""A check's answer, and its evidence on record."""

import json
import re
from collections.abc import Mapping
from typing import Any

from settlement.checks.check import Approve, Declared, Refuse, Wait, token_of
from settlement.core.model.errors import CheckUnavailable, InvalidRequest
from settlement.core.model.request import KEY
from settlement.core.model.verdict import CHECK

EVIDENCE_BYTES_MAX = 4_096
"""Maximum size of evidence: its write then costs at most five units."""

APPROVED, REFUSED = "APPROVED", "REFUSED"
_DECISIONS = {"approve": APPROVED, "refuse": REFUSED}
_FIELDS = ("decision", "evidence", "reason", "token")
_TOKEN = re.compile(r"(?P<key>.+):check:(?P<name>[^:]+)", re.ASCII)


def step_of(name: str) -> str:
    return f"{CHECK}{name}"


def metric_of(name: str, answer: str) -> str:
    """The metric of a check's answers. `answer` is approved, refused, waits or unavailable."""
    return f"Check.{name}.{answer}"


def content_of(check: Declared, answer: object, by: str) -> dict[str, str] | None:
    """The evidence of an answer, or None if the check waits.

    `by` is "ask" or "callback". Raises CheckUnavailable if the answer breaks the check's declaration.
    """
    match answer:
        case Wait() if check.wait_seconds:
            return None
        case Wait():
            raise broken(check, "waits, but declares no wait_seconds")
        case Approve(evidence):
            return _content(check, APPROVED, "", evidence, by)
        case Refuse(reason, evidence) if reason in check.refusals:
            return _content(check, REFUSED, reason, evidence, by)
        case Refuse():
            raise broken(check, "refuses for a reason that it does not declare")
    raise broken(check, f"answers with {type(answer).__name__}, and not with Approve, Refuse or Wait")


def broken(check: Declared, why: str) -> CheckUnavailable:
    return CheckUnavailable(f"check {check.name}: {why}")


def parse_callback(content: object, check: Declared) -> tuple[str, dict[str, str]]:
    """The payment's key and the evidence of a callback. Raises InvalidRequest."""
    if not isinstance(content, dict) or not {"decision", "token"} <= content.keys() <= {*_FIELDS}:
        raise InvalidRequest(f"body: must be a JSON object with decision and token, of {', '.join(_FIELDS)}")
    token, evidence = content["token"], content.get("evidence", {})
    found = _TOKEN.fullmatch(token) if isinstance(token, str) else None
    if not found or not KEY.fullmatch(found["key"]) or token != token_of(found["key"], check.name):
        raise InvalidRequest("token: must be the one that this check was asked with")
    if content["decision"] not in ("approve", "refuse"):
        raise InvalidRequest("decision: must be approve or refuse")
    decision, reason = _DECISIONS[content["decision"]], content.get("reason", "")
    if decision == REFUSED and reason not in check.refusals:
        raise InvalidRequest(
            f"reason: must be one of {', '.join(check.refusals) or 'none: it never refuses'}"
        )
    if decision == APPROVED and reason != "":
        raise InvalidRequest("reason: an approval has none")
    try:
        return found["key"], _content(check, decision, reason, evidence, "callback")
    except CheckUnavailable as wrong:
        raise InvalidRequest(str(wrong)) from None


def _content(check: Declared, decision: str, reason: str, evidence: object, by: str) -> dict[str, str]:
    return {"decision": decision, "reason": reason, "by_way": by, "evidence": _text(check, evidence)}


def _text(check: Declared, evidence: object) -> str:
    if not isinstance(evidence, Mapping):
        raise broken(check, "its evidence must be a mapping")
    try:
        text = json.dumps(_plain(evidence), allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise broken(check, "its evidence is not JSON") from None
    if len(text) > EVIDENCE_BYTES_MAX:
        raise broken(check, f"its evidence is longer than {EVIDENCE_BYTES_MAX} bytes of JSON")
    return text


def _plain(evidence: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in evidence):
        raise TypeError
    return dict(evidence)
