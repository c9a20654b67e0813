"""Simulates the outside of a stage: upstream, KYC provider, clock, and people on call."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from standardwebhooks import Webhook

from handlers.core.recover_stalled import PARTITIONS
from handlers.kyc import _provider as _kyc
from settle.door import Answer
from settle.exit_codes import CommandFailed
from settle.orders import proposing as proposal
from settle.orders.resolution import resolve
from settle.orders.reversal import reverse
from settlement.core.model.command import command
from settlement.core.model.errors import KycUnavailable, SettlementError
from settlement.core.model.orders import Decision
from settlement.core.model.request import STARTED_BY
from settlement.core.model.settlement import Settlement
from settlement.core.model.stored import MalformedRow
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.kyc.client import Refused
from tests.simulation.seeded import asking
from tests.simulation.seeded.chance import ASKS
from tests.simulation.seeded.facts import demand, done, number, settlement_in, text, undone
from tests.simulation.seeded.persons import OLGA, PERSONS, PETE, QUIN
from tests.world.definitions import EXPRESS, STANDARD
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.interpreter import ARN, TaskFailed
from tests.world.orders import request
from tests.world.rooms import is_there

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

SECRET = "whsec_c2ltdWxhdGlvbnMtYWxsLXRoZS13YXktZG93bg=="
MINUTE_MS = 60_000
FORWARD = ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee", "RejectSettlement")
OTHERWISE = (("amount", "6.66"), ("payee", "dave"), ("payer", "dave"), ("fee", "0.01"), ("currency", "USD"))
"""Fields that conflict with the claimed content."""

LABELLED_OTHERWISE = {"reference": "invoice 3"}
"""The conflict of a request with a reference, instead of another fee."""

STUCK = ("EnterLimbo", "AwaitResolution", "ResolveLimbo")
REVERSING = ("RefundFee", "ReclaimFunds", "VoidHold")
DOOR_MS_MAX = 30_000
"""API Gateway's timeout."""

CASES_MAX = 4
"""Maximum cases that people decide, because futile retries would never end."""

_UNANSWERED = (CommandFailed, ClientError, BotoCoreError, SettlementError, MalformedRow)


class People:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.alerted: set[tuple[str, int]] = set()
        self.to_miss: Counter[tuple[str, int]] = Counter()
        """Alerts that on call will still miss, by case."""

        self.dead_letters: list[str] = []
        self.at_work = 0
        """The number of unfinished actions."""

        self.decisions: tuple[Decision, ...] = (Decision.RETRY, Decision.WRITE_OFF, Decision.COMPLETE)
        self._requests = 0
        self._verdicts: dict[str, Verdict] = {}
        self._stack: Any = self._stack_of(OLGA)

    def _stack_of(self, who: tuple[str, str], shown: Mapping[str, Any] | None = None) -> Any:
        """Return one person's stack; `shown` is the proposal the person saw."""
        return SimpleNamespace(
            name="simulated",
            command=command,
            store=self._world.store,
            config=self._world.config,
            door=SimpleNamespace(send=partial(self._order, who, shown=shown)),
        )

    def spawn(self, name: str, delay: int, act: Callable[..., object], *about: Any) -> None:
        def acts() -> None:
            try:
                act(*about)
            finally:
                self.at_work -= 1

        self.at_work += 1
        self._world.hub.spawn(acts, name, delay)

    # Upstream.

    def begin(self, request: dict[str, Any], delay: int) -> None:
        """Send a request one or more times, by message or start, perhaps conflicting."""
        chance = self._world.chance
        for again in range(1 + chance.happens(0.3) + chance.happens(0.1)):
            sent = dict(request)
            if again and chance.happens(0.2):
                field, other = chance.one_of(OTHERWISE)
                sent |= LABELLED_OTHERWISE if field == "fee" and "reference" in sent else {field: other}
            machine = chance.one_of((STANDARD, EXPRESS))
            name = f"{sent['key']}-mine" if chance.happens(0.5) else f"{sent['key']}-mine-{again}"
            at = delay + chance.within(0, 5_000) if chance.happens(0.7) else chance.within(0, 20 * MINUTE_MS)
            if chance.happens(0.15):
                self.spawn("a message", at, self._send, sent)
            else:
                self.spawn("upstream", at, self._start, machine, name, sent)
        if chance.happens(0.2):
            self.order_reversal(request["key"])

    def spend_at_once(self, key: str) -> None:
        """Pay an account that spends all, so the ordered reversal cannot reclaim the money."""
        chance = self._world.chance
        request = {"key": key, "payer": "alice", "payee": "dave", "amount": "5.00"}
        request["currency"], request["fee"] = self._world.currency, chance.one_of(("0.00", "0.48"))
        spent = {**request, "key": f"{key}-on", "payer": "dave", "payee": "alice", "amount": "4.50"}
        self.begin(request, 0)
        self.begin({**spent, "fee": "0.00"}, chance.within(5_000, 30_000))
        self.spawn("a person", chance.within(30_000, 3 * MINUTE_MS), self._reverse, key)

    def order_reversal(self, key: str) -> None:
        self.spawn("a person", self._world.chance.within(0, 15 * MINUTE_MS), self._reverse, key)

    def _start(self, machine: str, name: str, request: dict[str, Any]) -> None:
        if machine == STANDARD:  # upstream is itself a machine, each time with another execution
            request = {**request, STARTED_BY: f"{ARN}:execution:Upstream:{name}"}
        try:
            arn = f"{ARN}:stateMachine:{machine}"
            self._world.step_functions.start_execution(
                stateMachineArn=arn, name=name, input=json.dumps(request)
            )
        except (ClientError, BotoCoreError):
            if self._world.chance.happens(0.5):
                self._world.hub.sleep(self._world.chance.within(0, 10_000))
                self._start(machine, name, request)

    def _send(self, request: dict[str, Any]) -> None:
        """Deliver a message until it is accepted, and sometimes again. Without a queue, start Express."""
        world = self._world
        if not is_there("doors"):
            self._start(EXPRESS, f"{request['key']}-instead-of-a-message", request)
            return
        record = {
            "messageId": "m",
            "receiptHandle": "r",
            "body": json.dumps(request),
            "eventSource": "aws:sqs",
        }
        for _ in range(30):
            call = world.cloud.call("StartSettlements", {"Records": [record]})
            world.hub.wait(call.answer, MINUTE_MS)
            if call.answer.value == {"batchItemFailures": []}:
                accepted = request["key"] in world.oracle.settlements or record["body"] in self.dead_letters
                demand(accepted, "a message taken from the queue is claimed or a dead letter", request["key"])
                if not world.chance.happens(0.1):
                    return
            world.hub.sleep(world.chance.within(1_000, MINUTE_MS))

    def send_message(self, **message: Any) -> None:
        reason = message["MessageAttributes"]["reason"]["StringValue"]
        refused = reason.startswith(("InvalidRequest", "IdempotencyConflict"))
        demand(refused, "a dead letter can never be settled", reason)
        self.dead_letters.append(message["MessageBody"])

    # The provider.

    def ask(self, settlement: Settlement, api_key: str, context: Any) -> Verdict | Refused:
        """Ask the provider, and check that a failure leaves time to count it in the circuit."""
        try:
            return _kyc._ask_in_time(settlement, api_key, context)
        except KycUnavailable:
            asking.is_counted(context.get_remaining_time_in_millis(), settlement.key)
            raise

    def exchange(self, settlement: Settlement, api_key: str) -> Verdict | Refused:
        """Return a payment's verdict, which is its earlier one in 97 % of repeated calls."""
        world, chance, key = self._world, self._world.chance, settlement.key
        since = world.hub.now

        def answer() -> Verdict | Refused:
            if world.circuit.is_in_trouble(settlement.payer, since):
                raise KycUnavailable("kyc: in trouble")
            if key in self._verdicts and not chance.happens(0.03):
                return self._verdicts[key]
            said = self._verdict(settlement)
            if isinstance(said, Verdict):
                self._verdicts[key] = said
            return said

        try:
            said: Verdict | Refused = world.provider.send("ask", ASKS, answer)
            return said
        except (ClientError, BotoCoreError):
            raise KycUnavailable("kyc: unreachable") from None

    def is_healthy(self) -> bool:
        world = self._world
        try:
            return bool(world.provider.send("health", ASKS, world.circuit.is_healthy))
        except (ClientError, BotoCoreError):
            return False

    def _verdict(self, settlement: Settlement) -> Verdict | Refused:
        chance = self._world.chance
        luck = chance.luck()
        if luck < 0.03:
            return Refused(422)
        decision = (
            KycDecision.REJECTED if luck < 0.1 else KycDecision.REVIEW if luck < 0.3 else KycDecision.APPROVED
        )
        verdict = Verdict(decision=decision, reference=f"ver_{settlement.key[-4:]}", reason="x", provider="p")
        if decision is KycDecision.REVIEW:
            for _ in range(1 + chance.happens(0.4)):
                at = 0 if chance.happens(0.2) else max(20, chance.within(0, 12 * MINUTE_MS))
                said = "REJECTED" if chance.happens(0.3) else "APPROVED"
                event = f"evt-{chance.one_of((1, 1, 1, 2))}"
                self.spawn("the provider", at, self._tell, settlement.key, verdict.reference, said, event)
        return verdict

    def _tell(self, key: str, reference: str, decision: str, event: str) -> None:
        world = self._world
        for _ in range(12):
            call: Any = world.cloud.call(
                "KycDecided", webhook(key, reference, decision, event, world.hub.now)
            )
            answered = world.hub.wait(call.answer, 30_000) and isinstance(call.answer.value, dict)
            if answered and call.answer.value["statusCode"] < 500:
                on_row = text(world.oracle.settlements.get(key), "verdict") == decision
                is_kept = call.answer.value["statusCode"] != 200 or on_row
                demand(is_kept, "a verdict that the webhook accepted is on record", key)
                return
            world.hub.sleep(world.chance.within(1_000, 2 * MINUTE_MS))

    # The clock.

    def recover(self) -> None:
        """Call recovery in each minute with a due settlement, and rarely in other minutes."""
        world = self._world
        while True:
            world.hub.sleep(MINUTE_MS - world.hub.now % MINUTE_MS)
            if world.is_due() or world.chance.happens(0.02):
                for _ in range(1 + world.chance.happens(0.1)):
                    for partition in PARTITIONS:
                        world.cloud.call("RecoverStalled", {"partition": partition})

    # Interference.

    def notice(self, key: str) -> None:
        chance = self._world.chance
        if chance.happens(chance.meddling):
            delay = chance.within(0, 3_000)
            if chance.happens(0.3):
                self.spawn("a person", delay, self._reverse, key)
            else:
                self.spawn("a stray call", delay, self.call_again, key)

    def call_again(self, key: str | None = None) -> None:
        """Repeat an earlier call: unchanged, different, or out of turn."""
        world, chance = self._world, self._world.chance
        keys = [(call, settlement_in(call.payload).get("key")) for call in world.cloud.calls]
        calls = [call for call, about in keys if about and key in (None, about)]
        if not calls:
            return
        call = chance.one_of(calls[-4:] if chance.happens(0.5) else calls)
        payload, function = json.loads(json.dumps(call.payload)), call.function
        settlement = settlement_in(payload)
        if chance.happens(0.3):
            name, other = chance.one_of(OTHERWISE)
            settlement[name] = other
        if "settlement" in payload:
            row = world.oracle.settlements.get(settlement["key"])
            if row and "fee" in settlement and chance.happens(0.6):
                function, payload = self._out_of_turn(settlement, row)
        world.cloud.call(function, payload)

    def _out_of_turn(self, settlement: dict[str, str], row: Item) -> tuple[str, dict[str, Any]]:
        """Return a call of a random function of the machines, with a complete payload."""
        chance, committed = self._world.chance, done(row)
        following = FORWARD[: len(committed) + 1][-1]
        if row["status"]["S"] in ("COMPENSATING", "LIMBO"):
            following = chance.one_of(STUCK)
        function = chance.one_of((following, following, *FORWARD, *REVERSING, *STUCK))
        error = {"Error": "InsufficientFunds", "Cause": "a stray call"}
        decision = {"decision": chance.one_of(self.decisions), "reason": "a stray call", "by": "a stray call"}
        return function, {
            "settlement": settlement,
            "execution": "stray",
            "execution_arn": f"{ARN}:execution:Compensation:stray",
            "claimed_at": "long ago",
            "error": error,
            "steps": sorted(committed),
            "reversed": sorted(undone(row)),
            "stuck": {chance.one_of(("fee", "release", "hold")): error},
            "case": number(row, "resolutions") + 1,
            "resolution": decision,
            "token": "stray",
        }

    # On call.

    def hear(self, event: Any) -> None:
        """Receive an event. If it is an alert, let up to two people decide the case."""
        if event["DetailType"] != "LimboEntered":
            return
        chance, detail = self._world.chance, event["Detail"]
        if isinstance(detail, str):
            detail = json.loads(detail)
        case = (detail["key"], detail["case"])
        if case not in self.alerted:
            missed = chance.happens(0.2) + chance.happens(0.2)
            self.to_miss[case] = 0 if chance.faults_end else missed  # the calm at the end is short
        elif self.to_miss[case]:
            self.to_miss[case] -= 1
        self.alerted.add(case)
        self._world.note("the pager", "alerts", detail)
        if chance.happens(0.1) and not chance.faults_end:
            self.spawn("a console user", chance.within(500, 2 * MINUTE_MS), self._fail_task, detail["key"])
        if self.to_miss[case]:
            return
        for _ in range((not chance.happens(0.1)) + chance.happens(0.2)):
            delay = chance.within(500, chance.one_of((10_000, 2 * MINUTE_MS, 20 * MINUTE_MS)))
            self.spawn("on call", delay, self._resolve, *case)

    def _fail_task(self, key: str) -> None:
        """Fail the waiting task in the console, against the runbook."""
        world = self._world
        token = text(world.table.items.get((f"WAITING#{key}", "WAITING")), "token")
        if token and world.cloud.wake(token, TaskFailed("FailedByHand")):
            world.count("TaskFailedByHand", 1)
            world.note("a console user", f"fails the task of {key}")

    def _resolve(self, key: str, case: int) -> None:
        world, chance = self._world, self._world.chance
        if case > CASES_MAX:
            return
        decision = chance.one_of(self.decisions)
        for _ in range(3):
            try:
                world.note("on call", f"decides {decision} on case {case} of {key}")
                if self._world.deployments.approvals:
                    self._decide_together(key, decision, f"because {decision}", case)
                else:
                    resolve(self._stack, key, decision, f"because {decision}", case)
                return
            except _UNANSWERED as failed:
                world.note("on call", "is told", failed)
                world.hub.sleep(chance.within(1_000, MINUTE_MS))
                decision = chance.one_of((decision, decision, Decision.RETRY))

    def _decide_together(self, key: str, decision: Decision | None, reason: str, case: int | None) -> None:
        """Propose a decision for approval, try to decide alone, or break the glass."""
        chance = self._world.chance
        luck = chance.luck()
        if luck < 0.1:
            if decision:
                resolve(self._stack, key, decision, reason, case)
            else:
                reverse(self._stack, key, reason)
            return
        if luck < 0.2:
            proposal.break_glass(self._stack, key, decision, reason, case)
            return
        told = proposal.propose(self._stack_of(chance.one_of(PERSONS)), key, decision, reason, case)
        for _ in range(chance.one_of((2, 3, 5))):
            delay = chance.within(0, chance.one_of((1_000, MINUTE_MS, 10 * MINUTE_MS)))
            move = proposal.withdraw if chance.happens(0.05) else proposal.approve
            self.spawn("another person", delay, self._approve, chance.one_of(PERSONS), key, told, move)

    def propose_twice(self, key: str) -> None:
        """Propose and withdraw a reversal, then propose again with two approvals."""
        self.propose(key, OLGA, (OLGA, proposal.withdraw))
        self.propose(key, PETE, (OLGA, proposal.approve), (QUIN, proposal.approve))

    def propose(self, key: str, who: tuple[str, str], *moves: tuple[tuple[str, str], Any]) -> None:
        """Propose a reversal, and let others make moves until one is refused or unanswered."""
        with suppress(*_UNANSWERED):
            told = proposal.propose(self._stack_of(who), key, None, "the customer asks for it", None)
            for other, move in moves:
                move(self._stack_of(other, told), key, told)

    def _approve(self, who: tuple[str, str], key: str, told: dict[str, Any], move: Any) -> None:
        try:
            self._world.note("another person", f"{move.__name__}s {told['digest']}", who[1])
            move(self._stack_of(who, told), key, told)
        except _UNANSWERED as failed:
            self._world.note("another person", "is told", failed)

    def _reverse(self, key: str) -> None:
        world = self._world
        for _ in range(2):
            try:
                world.note("a person", f"reverses {key}")
                if world.deployments.approvals:
                    self._decide_together(key, None, "the customer asks for it", None)
                else:
                    reverse(self._stack, key, "the customer asks for it")
                return
            except _UNANSWERED as failed:
                world.note("a person", "is told", failed)
                world.hub.sleep(world.chance.within(1_000, 5 * MINUTE_MS))

    def give_back(self, order: dict[str, Any]) -> None:
        """Order a partial reversal, and repeat it with the same number if it is not answered."""
        for _ in range(3):
            with suppress(BotoCoreError):
                if self._order(OLGA, "reverse-part", order).status < 500:
                    return
            self._world.hub.sleep(self._world.chance.within(1_000, 5_000))

    def probe(self) -> None:
        with suppress(BotoCoreError):
            self._order(OLGA, "probe", {})

    def _order(
        self,
        who: tuple[str, str],
        decision: str,
        order: dict[str, Any],
        shown: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Send an order. The answer can be lost, or be API Gateway's own error.

        `shown` is the proposal on which the person decides.
        """
        world = self._world
        differing = [
            name for name, value in order.items() if name != "key" and value != (shown or order)[name]
        ]
        demand(not differing, "a person approves or withdraws what was shown", decision, differing)
        by, user_id = who
        self._requests += 1
        asked = request(decision, order, by, user_id=user_id, request_id=f"req-{self._requests}")
        call = world.cloud.call("TakeOrder", asked)
        answered = world.hub.wait(call.answer, DOOR_MS_MAX)
        answer: Any = call.answer.value if answered else None
        if not answered or world.chance.happens(0.03):
            raise ReadTimeoutError(endpoint_url="https://orders.invalid")
        if not isinstance(answer, dict):
            return Answer(500, {"message": "Internal Server Error"})
        return Answer(answer["statusCode"], json.loads(answer["body"]))


def webhook(key: str, reference: str, decision: str, event: str, at: int) -> dict[str, Any]:
    """Return a signed webhook call; `at` is in milliseconds."""
    content = {
        "idempotency_key": f"{key}:verify",
        "decision": decision,
        "reference": reference,
        "reason": "x",
    }
    body, name, now = json.dumps(content), f"{key}-{event}", NOW + timedelta(milliseconds=at)
    headers = {
        "webhook-id": name,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(name, now, body),
    }
    return {"headers": headers, "body": body}
