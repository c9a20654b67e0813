import json
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from settle.local.record import PROJECT

CONTRACT = PROJECT / "docs" / "contracts" / "kyc.openapi.yaml"


class Behaviour(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    REVIEW = "review"
    REVIEW_APPROVE = "review-approve"  # the review ends automatically, after the answer
    REVIEW_REJECT = "review-reject"
    EARLY_APPROVE = "early-approve"  # the review ends before the answer
    REFUSE = "refuse"
    BUSY = "busy"
    ERROR = "error"
    REDIRECT = "redirect"
    GARBAGE = "garbage"
    HUGE = "huge"
    CLOSE = "close"
    HANG = "hang"
    DRIP = "drip"
    DRIP_HEADERS = "drip-headers"


ERROR_STATUSES = {Behaviour.REFUSE: 400, Behaviour.BUSY: 429, Behaviour.ERROR: 500, Behaviour.REDIRECT: 307}
_DECISIONS = {Behaviour.APPROVE: "APPROVED", Behaviour.REJECT: "REJECTED"}
REVIEW_VERDICTS = {
    Behaviour.REVIEW_APPROVE: "APPROVED",
    Behaviour.REVIEW_REJECT: "REJECTED",
    Behaviour.EARLY_APPROVE: "APPROVED",
}


@dataclass
class State:
    """The provider's state. `calls` counts every verification request."""

    behaviour: Behaviour = Behaviour.APPROVE
    delay_seconds: float = 0
    api_keys: list[str] = field(default_factory=list)
    webhook_url: str = ""
    signing_secret: str = ""
    calls: int = 0
    answers: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    SETTINGS = ("behaviour", "delay_seconds", "api_keys", "webhook_url", "signing_secret")

    def change(self, settings: dict[str, Any]) -> None:
        """Change settings. Raises ValueError for an unknown or malformed setting."""
        if not (isinstance(settings, dict) and settings.keys() <= set(self.SETTINGS)):
            raise ValueError(f"control: must be an object with the fields {', '.join(self.SETTINGS)}")
        if "behaviour" in settings:
            settings["behaviour"] = Behaviour(settings["behaviour"])
        delay = settings.get("delay_seconds", 0)
        if not (isinstance(delay, int | float) and delay >= 0):
            raise ValueError("delay_seconds: must be a number from 0 up")
        keys = settings.get("api_keys", [])
        if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
            raise ValueError("api_keys: must be a list of strings")
        with self.lock:
            for name, value in settings.items():
                setattr(self, name, value)

    def describe(self) -> dict[str, Any]:
        return {"behaviour": self.behaviour, "delay_seconds": self.delay_seconds, "calls": self.calls}


def behaviour_of(payment: dict[str, str], default: Behaviour) -> Behaviour:
    """Return the behaviour in a party's account id, `kyc-<behaviour>[.suffix]`, else `default`."""
    for party in ("payee", "payer"):
        name = payment[party].partition(".")[0].removeprefix("kyc-")
        if payment[party].startswith("kyc-") and name in list(Behaviour):
            return Behaviour(name)
    return default


def verification_of(key: str, behaviour: Behaviour) -> dict[str, str]:
    return {
        "decision": _DECISIONS.get(behaviour, "REVIEW"),
        "reference": reference_of(key),
        "reason": f"simulated: {behaviour}",
    }


def reference_of(key: str) -> str:
    return f"ver_{key.removesuffix(':verify')}"


def canonical(payment: dict[str, str]) -> bytes:
    return json.dumps(payment, sort_keys=True).encode()


@cache
def schema(name: str) -> Draft202012Validator:
    contract = yaml.safe_load(CONTRACT.read_text("utf-8"))
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": contract["components"]}
    )
