"""Simulates a stage's own checks with faults, callbacks and strangers; most worlds have none.

A check's answers follow from its token alone, so a later life of the world has the same answers. Some checks
contradict their earlier answer.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from settlement.checks import together
from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Tools, Wait, token_of
from settlement.checks.of_stage import Installed
from tests.simulation.seeded.facts import demand, done, number, text
from tests.simulation.seeded.people import SECRET
from tests.world.definitions import stalling
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.services import PREVIOUS, Caller

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY, PLACE = 13, 11
"""Seeds with the remainder PLACE modulo EVERY have checks, because planted bugs were found in other seeds."""

NAMES = ("limits", "delivered", "sanctions")
WAIT_SECONDS = 600
_SENT_MS_MAX = 12 * 60_000
_CHANGED_MS_MAX, NEVER = 6 * 60_000, 1 << 62
_FAULTS = (OSError("simulated"), RuntimeError("simulated"), "late", "dies", True, Refuse("undeclared"))
_SAID = {"approve": "APPROVED", "refuse": "REFUSED"}


class Checks:
    def __init__(self, world: "World", seed: int | None = None) -> None:
        self._world, self.seed = world, seed
        self._sent: set[tuple[str, str]] = set()
        """Callbacks, by token and decision, that the checks' own senders sent."""

        has_some = seed is not None and seed % EVERY == PLACE
        self._random = Random(f"checks {seed}")
        names = self._random.sample(NAMES, self._random.randint(1, len(NAMES))) if has_some else []
        self._first = {name: Installed(self._check(name)) for name in names}
        changed, self._changes_at = self._first, NEVER
        if has_some and self._random.random() < 0.5:  # one is added or removed
            other = self._random.choice(NAMES)
            rest = {name: one for name, one in self._first.items() if name != other}
            changed = rest if other in self._first else {**rest, other: Installed(self._check(other))}
            self._changes_at = self._random.randint(0, _CHANGED_MS_MAX)
        self._changed = changed
        if has_some:
            world.cloud.machines.definitions = stalling()

    @property
    def installed(self) -> dict[str, Installed]:
        return self._changed if self._world.hub.now >= self._changes_at else self._first

    @property
    def declared(self) -> dict[str, Check]:
        return {name: one.check for name, one in self.installed.items()}

    def ask(self, calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
        """Ask the checks like `together.ask`, and let the slowest answer's time pass, at most `seconds`."""
        answers = {name: self._called(call) for name, call in calls.items()}
        if answers:
            self._world.hub.sleep(min(self._random.randint(0, 500), int(seconds * 1_000)))
        return answers

    def _called(self, call: Callable[[], Any]) -> Any:
        world = self._world
        if world.chance.faults_end or self._random.random() >= 0.2:
            return call()
        fault = self._random.choice(_FAULTS)
        world.count(f"a check's fault: {fault}", 1)
        if fault == "dies":
            world.hub.kill(world.hub.process)
        if fault == "late":
            call()
            return together.TooLate("gave no answer in time")
        return fault

    def _check(self, name: str) -> Check:
        return Check(name=name, refusals=("no",), ask=partial(self._answer, name), wait_seconds=WAIT_SECONDS)

    def _answer(self, name: str, payment: Payment, token: str, tools: Tools) -> Answer:
        world = self._world
        said = answer_to(token)
        if said == "wait":
            if not world.chance.faults_end or self._random.random() < 0.5:
                self._plan_callbacks(name, payment.key)
            return Wait()
        if changes_mind(token) and self._random.random() < 0.3:
            said = "refuse" if said == "approve" else "approve"
        return Approve({"token": token}) if said == "approve" else Refuse("no")

    def _plan_callbacks(self, name: str, key: str) -> None:
        world, random = self._world, self._random
        for _ in range(random.choice((0, 1, 1, 2))):
            said = called_back(token_of(key, name), random)
            at = random.choice((0, 20, random.randint(0, _SENT_MS_MAX)))
            world.people.spawn("a check's sender", at, self._tell, name, key, said)
        if random.random() < 0.3:
            self._world.people.spawn("a stranger", random.randint(0, 60_000), self._intrude, name, key)

    def _tell(self, name: str, key: str, decision: str) -> None:
        world = self._world
        self._sent.add((token_of(key, name), _SAID[decision]))
        for _ in range(12):
            call: Any = world.cloud.call("CheckDecided", self._event(name, key, decision))
            answered = world.hub.wait(call.answer, 30_000) and isinstance(call.answer.value, dict)
            if answered and (status := call.answer.value["statusCode"]) < 500:
                on_record = world.oracle.verdicts.get((key, f"check:{name}"))
                is_kept = text(on_record, "decision") == _SAID[decision]
                demand(status != 200 or is_kept, "an accepted callback's answer is on record", key, name)
                world.count(f"a callback's status {status}", 1)
                return
            world.hub.sleep(self._random.randint(1_000, 120_000))

    def _intrude(self, name: str, key: str) -> None:
        """Call back with another check's secret, or about another check."""
        world = self._world
        event = self._event(name, key, "approve", secret=PREVIOUS)
        if self._random.random() < 0.5:
            event = self._event(name, key, "approve") | {"rawPath": "/another"}
        call: Any = world.cloud.call("CheckDecided", event)
        if world.hub.wait(call.answer, 30_000) and isinstance(call.answer.value, dict):
            demand(call.answer.value["statusCode"] != 200, "a stranger's callback is refused", key, name)

    def _event(self, name: str, key: str, decision: str, secret: str = SECRET) -> dict[str, Any]:
        token = token_of(key, name)
        content = {"token": token, "decision": decision, "evidence": {"sent": token}}
        content |= {"reason": "no"} if decision == "refuse" else {}
        at = NOW + timedelta(milliseconds=self._world.hub.now)
        caller = Caller(secret, at, f"{name}-{self._random.getrandbits(32)}")
        return caller(json.dumps(content)) | {"rawPath": f"/{name}"}

    # Rules

    def committed(self, old: Item | None, new: Item | None) -> None:
        if not new or self.seed is None:
            return
        key, demanded = new["pk"]["S"].partition("#")[2], set(new.get("checks", {}).get("SS", ()))
        if not old:
            if "request_hash" not in new:  # a row that nobody can read
                return
            stages = (set(self._first), set(self._changed))
            demand(demanded in stages, "a claim demands the stage's checks", key, demanded)
            return
        records = self._world.oracle.verdicts
        said = {name: text(records.get((key, f"check:{name}")), "decision") for name in demanded}
        demand(old.get("checks") == new.get("checks"), "a payment's checks are those of its claim", key)
        if text(new, "verdict") == "APPROVED" and "verdict" not in old:
            demand(set(said.values()) <= {"APPROVED"}, "KYC decides after all checks approved", key, said)
        if "release" in done(new) - done(old):
            demand(set(said.values()) <= {"APPROVED"}, "no release without each check", key, said)
        reason = new.get("reversed_for", {"M": {}})["M"]
        if "reversed_for" not in old and text(reason, "error") == "CheckRefused":
            demand("REFUSED" in said.values(), "a reversal for a check has its refusal", key, said)
            self._world.count("CheckRefused reversed", 1)
        awaited = (text(old, "review") or "").removeprefix("check:")
        if "expired_at" in new and "expired_at" not in old and awaited in demanded:
            is_known = said[awaited] and not changes_mind(f"{key}:check:{awaited}")
            demand(not is_known, "no payment is held to the end of an answered wait", key, awaited)
            self._world.count("a check's wait expired", 1)
        if (text(new, "review") or "").startswith("check:"):
            evidence = [records.get((key, f"check:{name}")) for name in demanded]
            is_refused = any(text(one, "decision") == "REFUSED" for one in evidence)
            demand(not is_refused, "a refused payment does not wait for another check", key)
        ended = number(new, "waits") - number(old, "waits")
        if ended:
            demand(ended == 1 and "review" not in new, "one wait ends at a time", key)
            refused = {one for one in said if said[one] == "REFUSED"}
            demand(
                said.get(awaited) or refused,
                "a wait ends by its own check, or by a refusal",
                key,
                awaited,
                said,
            )
            times = {text(records.get((key, f"check:{one}")), "posted_at") for one in {awaited, *refused}}
            demand(text(new, "in_flight_since") in times, "a payment is due since its callback", key)
            self._world.count(f"a check's wait ended by {'itself' if said.get(awaited) else 'another'}", 1)

    def recorded(self, evidence: Item) -> None:
        """Check that evidence is an answer that this check may have given for this payment."""
        key, step = evidence["pk"]["S"].partition("#")[2], evidence["step"]["S"]
        before = self._world.oracle.verdicts.get((key, step))
        demand(before in (None, evidence), "a check's evidence is put once", key, step)
        row = self._world.oracle.settlements.get(key, {})
        is_demanded = step.removeprefix("check:") in row.get("checks", {}).get("SS", ())
        demand(is_demanded, "only a demanded check answers", key, step)
        token = f"{key}:{step}"
        said = answer_to(token)
        is_other = changes_mind(token) or said == "wait"
        allowed = {"APPROVED", "REFUSED"} if is_other else {_SAID[said]}
        found = text(evidence, "decision")
        demand(found in allowed, "evidence is its own check's answer", key, step, found)
        content, way = json.loads(evidence["evidence"]["S"]), text(evidence, "by_way")
        if way == "callback":
            demand(content == {"sent": token}, "a callback is about its own payment", key, step, content)
            demand((token, found) in self._sent, "a callback is its sender's", key, step, found)
        elif found == "APPROVED":
            demand(content == {"token": token}, "an answer is the token's", key, step, content)


def answer_to(token: str) -> str:
    luck = Random(f"answer {token}").random()
    return "refuse" if luck < 0.08 else "wait" if luck < 0.4 else "approve"


def changes_mind(token: str) -> bool:
    return Random(f"mind {token}").random() < 0.1


def called_back(token: str, random: Random) -> str:
    usual = "refuse" if Random(f"callback {token}").random() < 0.2 else "approve"
    return usual if random.random() < 0.9 else "refuse"
