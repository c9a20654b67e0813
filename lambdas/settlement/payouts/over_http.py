"""A bank that follows docs/contracts/bank.openapi.yaml. Any other answer counts as unknown."""

import json
from collections.abc import Mapping
from typing import Any

from settlement.core.model import money, strict_json
from settlement.http.connection import NoAnswer
from settlement.http.exchange import Exchanger
from settlement.payouts.payout import State, Word
from settlement.payouts.policy import EXCHANGE_WITHIN
from settlement.payouts.port import (
    REASON,
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_TAKEN = (Word.ACCEPTED, Word.PAID)
_TOLD = (*_TAKEN, Word.REFUSED, Word.RETURNED)


class OverHttp:
    """A bank's client, for one thread. `currencies` maps accepted codes to exponents.

    Raises ValueError for timeouts over EXCHANGE_WITHIN.
    """

    def __init__(
        self, exchanger: Exchanger, declared: Declared, currencies: Mapping[str, int], token: str
    ) -> None:
        if exchanger.connect_seconds + exchanger.read_seconds > EXCHANGE_WITHIN.total_seconds():
            raise ValueError(f"an exchange with a bank must end within {EXCHANGE_WITHIN}")
        self.declared = declared
        self._exchanger, self._currencies, self.token = exchanger, currencies, token

    def request(self, state: State) -> bytes:
        payout = state.payout
        if payout.currency not in self._currencies:
            raise NotSendable(f"{self.declared.name} takes no {payout.currency}")
        content = {
            **self._named(state),
            "creditor": {"iban": state.iban, "name": state.holder},
        }
        return _CANONICAL.encode(content).encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        if state.payout.currency not in self._currencies:
            return self._not_taken(state)
        status, content = self._ask("POST", "/payouts", state, body)
        match status, content.get("status"), content.get("reason"):
            case ((200 | 201), word, _) if word in _TAKEN and self._is_about(state, content):
                return Accepted()
            case 422, _, str(reason) if reason in self.declared.refusals and self._is_named(state, content):
                return Refused(reason)
        return self._unknown(status)

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        if state.payout.currency not in self._currencies:
            return self._not_taken(state)
        status, content = self._ask("GET", f"/payouts/{state.payout.reference}", state, None)
        match status, content.get("status"):
            case 200, word if word in _TOLD and self._is_about(state, content):
                return self._found(Word(str(word)), content.get("reason", ""))
            case 404, "never seen" if self._is_named(state, content):
                return NeverSeen()
        return self._unknown(status)

    def _not_taken(self, state: State) -> Unknown:
        return Unknown(f"{self.declared.name} takes no {state.payout.currency}")

    def _found(self, word: Word, reason: object) -> Found | Unknown:
        if not isinstance(reason, str) or (reason and not REASON.fullmatch(reason)):
            return Unknown("the bank's reason is none of the contract")
        if word is Word.REFUSED and reason not in self.declared.refusals:
            return Unknown("the bank refuses for a reason that it has not declared")
        return Found(word, reason)

    def _ask(self, method: str, path: str, state: State, body: bytes | None) -> tuple[int, dict[str, Any]]:
        """Return an answer's status and JSON object; status 0 without a valid answer."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {self.token}",
            "User-Agent": "settlement-saga",
        }
        if body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": state.payout.reference}
        try:
            status, answer = self._exchanger.exchange(method, self._exchanger.base_path + path, headers, body)
        except NoAnswer:
            return 0, {}
        try:
            content = strict_json.parse(answer)
        except strict_json.Malformed:
            self._exchanger.renew()
            return 0, {}
        return (status, content) if isinstance(content, dict) else (0, {})

    def _named(self, state: State) -> dict[str, str]:
        payout = state.payout
        amount = money.render(payout.amount, self._currencies[payout.currency])
        return {"reference": payout.reference, "amount": amount, "currency": payout.currency}

    def _is_about(self, state: State, content: Mapping[str, Any]) -> bool:
        return all(content.get(name) == value for name, value in self._named(state).items())

    def _is_named(self, state: State, content: Mapping[str, Any]) -> bool:
        return bool(content.get("reference") == state.payout.reference)

    def _unknown(self, status: int) -> Unknown:
        return Unknown(f"http status {status}" if status else "no sound answer")


class MalformedEvent(ValueError):
    """The event names no payout."""


def parse_event(event: bytes) -> str:
    """Return the reference of the event's payout. Raises MalformedEvent."""
    try:
        content = strict_json.parse(event)
    except strict_json.Malformed as malformed:
        raise MalformedEvent(f"event: {malformed}") from None
    reference = content.get("reference") if isinstance(content, dict) else None
    if not isinstance(reference, str) or not reference:
        raise MalformedEvent("event: must be an object with the payout's reference")
    return reference
