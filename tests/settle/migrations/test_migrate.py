"""`settle migrate` rewrites finished rows between layouts; its runner may die anywhere."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from settle.exit_codes import CommandFailed, Exit
from settle.migrations import migration, reach, runner
from settle.migrations.rows import PARTS, Direction, Phase, Progress
from settle.migrations.runner import Means, NotAlone
from settle.proof import books
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model.layout import parts_of
from settlement.core.model.timestamps import timestamp
from tests.settle.conftest import Command, raising
from tests.settle.desk import GRACE, Desk, call
from tests.world.environment import NOW
from tests.world.orders import request
from tests.world.step_functions import client_error

pytestmark = pytest.mark.server

NAME = PARTS.name
PAID = [f"order-2026-00030{number}" for number in range(4)]
FORWARD, BACK = Direction.FORWARD, Direction.BACK


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Town:
    """Four payments, all but the last reversed in part, and the means to migrate them."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.clock, self.alarm, self.deployment = desk, Clock(), list[str](), "the first"
        self.means = Means(
            store=desk.ledger.store,
            now=self.clock.now,
            sleep=self.clock.sleep,
            deployment=lambda: self.deployment,
            alarm=lambda: self.alarm[0] if self.alarm else None,
            units_per_second=1_000,
        )
        for key in PAID:
            desk.pay(key, amount="10.00", fee="0.10")
        for number, key in enumerate(PAID[:3]):
            for part in range(1, number + 2):
                self.reverse(key, part)

    def reverse(self, key: str, part: int) -> None:
        order = {"key": key, "part": part, "amount": "1.00", "reason": "one came back"}
        answer = call("TakeOrder", request("reverse-part", order, GRACE))
        assert answer["statusCode"] == 200, answer

    def run(self, direction: Direction = FORWARD, name: str = "mine", **other: Any) -> Progress:
        return runner.run(replace(self.means, **other), PARTS, direction, name)

    def layouts(self) -> list[tuple[int, int]]:
        rows = [self.desk.row(key) for key in PAID]
        return [(row.get("layout", 1), parts_of(row)) for row in rows]

    def look(self) -> Progress:
        found = runner.look(self.desk.ledger.store, PARTS)
        assert found
        return found


OLD, NEW = [(1, 1), (1, 2), (1, 3), (1, 0)], [(2, 1), (2, 2), (2, 3), (1, 0)]


@pytest.fixture
def town(desk: Desk) -> Town:
    return Town(desk)


def test_every_partly_reversed_row_is_migrated_once_and_back(town: Town) -> None:
    before = town.desk.ledger.rows()

    progress = town.run()

    again = town.run()

    assert (progress.phase, progress.read, progress.changed, progress.left) == (Phase.DONE, 4, 3, 0)
    assert progress.leased_until == timestamp(NOW + runner.LEASE)
    assert (again.phase, again.read, again.changed) == (Phase.DONE, 4, 0)
    assert town.layouts() == NEW
    assert books.prove(town.desk.stack)["conserved"]
    back = town.run(BACK)
    assert (back.phase, back.read, back.changed) == (Phase.DONE, 4, 3)
    own = keys.migration(NAME)["pk"]
    assert [row for row in town.desk.ledger.rows() if row["pk"] != own] == before


def test_a_run_continues_where_a_killed_run_ended(town: Town) -> None:
    """At 0.2 units a second a page has two of the four rows."""
    with pytest.raises(KeyboardInterrupt):
        town.run(name="killed", told=killed_after(town, 1), units_per_second=0.2)
    assert town.look().phase is Phase.RUNNING
    assert town.look().read < 4
    read = town.look().read

    with pytest.raises(NotAlone, match=r"^runner killed is at work until "):
        town.run()
    town.clock.sleep(runner.LEASE.total_seconds())
    progress = town.run()

    assert progress.runner == "mine"
    assert (progress.phase, progress.read) == (Phase.DONE, 4)
    assert read > 0
    assert town.layouts() == NEW


def test_a_run_starts_over_after_a_deployment(town: Town) -> None:
    """Meanwhile the functions rewrote a migrated row in the first layout."""

    def killed(progress: Progress) -> None:
        if progress.changed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        town.run(name="killed", told=killed, units_per_second=0.2)
    changed = next(row for row in map(town.desk.row, PAID) if "reversals_in_part" in row)
    back = PARTS.write(changed, BACK)
    assert back
    town.desk.ledger.store.apply(back)
    town.deployment = "the second"
    town.clock.sleep(runner.LEASE.total_seconds())

    progress = town.run()

    assert (progress.phase, progress.read, progress.deployment) == (Phase.DONE, 4, "the second")
    assert town.layouts() == NEW


def test_a_run_pauses_if_the_stage_is_deployed_meanwhile(town: Town) -> None:
    def deployed(progress: Progress) -> None:
        town.deployment = "the second"

    paused = town.run(told=deployed)

    assert (paused.phase, paused.reason) == (Phase.PAUSED, "the stage was deployed meanwhile: run it again")
    assert town.run().phase is Phase.DONE


def test_a_stage_that_is_being_deployed_is_not_migrated() -> None:
    found = {"StackStatus": "UPDATE_IN_PROGRESS", "LastUpdatedTime": NOW, "CreationTime": NOW}
    client = SimpleNamespace(describe_stacks=lambda **asked: {"Stacks": [found]})
    stack = cast(
        Stack,
        SimpleNamespace(
            name="settlement-test", cloudformation="settlement-test", client=lambda service: client
        ),
    )

    with pytest.raises(CommandFailed, match="settlement-test: is UPDATE_IN_PROGRESS"):
        reach.deployment(stack)
    found["StackStatus"] = "UPDATE_COMPLETE"
    assert reach.deployment(stack) == timestamp(NOW)
    del found["LastUpdatedTime"]
    assert reach.deployment(stack) == timestamp(NOW)


def killed_after(town: Town, pages: int) -> Callable[[Progress], None]:
    """Return a callback that kills a run after `pages` reports, once it has read a settlement."""
    seen: list[int] = []

    def told(progress: Progress) -> None:
        seen.append(progress.read)
        if progress.read and len(seen) > pages:
            raise KeyboardInterrupt

    return told


@pytest.mark.parametrize("after", range(12))
def test_another_run_finishes_a_run_killed_at_any_write(town: Town, after: int) -> None:
    client, dying = town.desk.ledger.client, Dying(town.desk.ledger.client, after)
    store = town.desk.ledger.store
    store.client = dying
    died = False
    try:
        town.run(name="dying", units_per_second=0.2)
    except KeyboardInterrupt:
        died = True
    store.client = client
    town.clock.sleep(runner.LEASE.total_seconds())

    progress = town.run()

    assert died
    assert progress.phase is Phase.DONE
    assert town.layouts() == NEW
    assert books.prove(town.desk.stack)["conserved"]


class Dying:
    """DynamoDB client that dies after `after // 2` writes; an odd `after` lets one more take effect."""

    def __init__(self, client: Any, after: int) -> None:
        self._client, self._left, self._takes_effect = client, after // 2, after % 2

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in ("put_item", "update_item"):
            return found

        def call(**parameters: Any) -> Any:
            self._left -= 1
            if self._left >= 0:
                return found(**parameters)
            if self._takes_effect:
                found(**parameters)
            raise KeyboardInterrupt

        return call


def test_a_runner_that_lost_its_lease_overwrites_no_progress(town: Town) -> None:
    """The runner pauses for longer than its lease, and its next write finds another runner."""

    def stand_still(progress: Progress) -> None:
        if progress.read or progress.phase is not Phase.RUNNING:
            return
        town.clock.sleep(runner.LEASE.total_seconds() + 1)
        town.run(name="other")

    with pytest.raises(NotAlone, match=r"^runner other is at work"):
        town.run(name="slow", told=stand_still)

    assert (town.look().runner, town.look().phase) == ("other", Phase.DONE)
    assert town.layouts() == NEW


def test_a_run_that_a_person_paused_can_be_continued(town: Town) -> None:
    def pause(progress: Progress) -> None:
        runner.pause(town.means, PARTS, "month's end")

    paused = town.run(told=pause)

    assert (paused.phase, paused.reason) == (Phase.PAUSED, "month's end")
    progress = town.run(name="another")
    assert (progress.phase, progress.reason) == (Phase.DONE, None)
    assert town.layouts() == NEW


def test_pausing_when_no_run_is_active_changes_nothing(town: Town) -> None:
    assert runner.pause(town.means, PARTS, "why not") is None
    town.run()
    assert runner.pause(town.means, PARTS, "why not") == town.look()
    assert town.look().phase is Phase.DONE


def test_an_alarm_pauses_the_run(town: Town) -> None:
    town.alarm.append("settlement-prod-LimboOpen")

    paused = town.run()

    assert (paused.phase, paused.reason) == (Phase.PAUSED, "the alarm settlement-prod-LimboOpen is on")
    assert town.layouts() == OLD
    town.alarm.clear()
    assert town.run().phase is Phase.DONE


def test_a_throttled_run_is_paused(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    client = town.desk.ledger.client

    monkeypatch.setattr(client, "update_item", raising(client_error("UpdateItem", "ThrottlingException")))
    paused = town.run()
    monkeypatch.undo()

    assert (paused.phase, paused.reason) == (Phase.PAUSED, "DynamoDB: ThrottlingException")
    assert town.run().phase is Phase.DONE
    assert town.layouts() == NEW


def test_a_runner_recognizes_its_own_progress_after_a_lost_answer(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, lost = town.desk.ledger.client, list[bool]()
    put = client.put_item

    def loses_one(**parameters: Any) -> Any:
        answer = put(**parameters)
        if not lost and parameters["Item"]["version"] == {"N": "2"}:
            lost.append(True)
            raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")
        return answer

    monkeypatch.setattr(client, "put_item", loses_one)
    with pytest.raises(Exception, match="ReadTimeoutError"):
        town.run()

    assert lost
    assert town.run().phase is Phase.DONE  # the same runner: it is not its own rival
    assert town.layouts() == NEW


@pytest.mark.parametrize(("units", "seconds"), [(1_000, 0), (2, 0.5), (1, 2)])
def test_a_run_stays_below_its_pace_of_write_units(town: Town, units: float, seconds: float) -> None:
    began = town.clock.at

    town.run(units_per_second=units)

    assert (town.clock.at - began).total_seconds() == pytest.approx(seconds)


def test_the_plan_names_obstacles_and_counts_the_rows(town: Town) -> None:
    told = migration.plan(town.desk.stack, PARTS, FORWARD)

    assert (told["rows"], told["done"]) == (3, 0)
    assert told["obstacles"] == [
        "row_layout is 1: deploy with row_layout=2 first",
        f"the stack has no role for it: deploy with migration={NAME}",
    ]
    deploy(town.desk, row_layout=2)
    town.run()
    told = migration.plan(town.desk.stack, PARTS, BACK)
    assert (told["rows"], told["done"]) == (3, 0)
    assert told["obstacles"] == ["row_layout is 2: deploy with row_layout=1 first"]


def deploy(desk: Desk, *, row_layout: int) -> None:
    config = json.loads(desk.stack.outputs["StageConfig"]) | {"row_layout": row_layout}
    desk.stack.outputs.update({"StageConfig": json.dumps(config), "MigrationRoleArn": "arn:of:role"})
    desk.stack.__dict__.pop("config", None)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"reversals_in_part": 2}, "has 2 parts of 300, its evidence 3 of 300"),
        ({"reversed_in_part": 299}, "has 3 parts of 299, its evidence 3 of 300"),
        ({"layout": 3}, "has layout 3, and this release reads up to 2"),
    ],
)
def test_verify_finds_unmigrated_and_wrong_rows(town: Town, change: dict[str, int], fault: str) -> None:
    assert migration.verify(town.desk.stack, PARTS, FORWARD)["left"] == PAID[:3]
    town.run()
    assert migration.verify(town.desk.stack, PARTS, FORWARD) == {
        "migration": NAME,
        "direction": FORWARD,
        "right": 3,
        "left": [],
        "faults": [],
    }
    town.desk.ledger.put(town.desk.row(PAID[2]) | change)

    told = migration.verify(town.desk.stack, PARTS, FORWARD)

    assert told["right"] == 2
    assert len(told["faults"]) == 1
    assert told["faults"][0].endswith(fault)


@pytest.fixture
def reached(town: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(reach, "means", lambda stack, migration, units, told: replace(town.means, told=told))
    return town


def test_a_migration_can_be_planned_run_and_verified_by_commands(reached: Town, command: Command) -> None:
    code, out, _ = command("migrate", "plan", NAME, "--json")
    assert (code, json.loads(out)["rows"]) == (Exit.FAILED, 3)
    code, _, err = command("migrate", "run", NAME)
    assert code == Exit.FAILED
    assert "deploy with row_layout=2 first" in err
    deploy(reached.desk, row_layout=2)
    assert command("migrate", "plan", NAME)[0] == Exit.FINE
    assert command("migrate", "pause", NAME)[0] == Exit.NOT_FOUND

    code, out, err = command("migrate", "run", NAME, "--json")

    assert (code, json.loads(out)["phase"]) == (Exit.FINE, "DONE")
    assert f"{NAME} forward: 0 rows read, 0 changed" in err
    code, out, _ = command("migrate", "verify", NAME)
    assert (code, out) == (Exit.FINE, "RIGHT: 3 rows are as they should be\n")
    code, out, _ = command("migrate", "verify", NAME, "--back")
    assert code == Exit.FAILED
    assert f"LEFT {PAID[0]}: run the migration again" in out


def test_a_second_concurrent_runner_is_refused(reached: Town, command: Command) -> None:
    deploy(reached.desk, row_layout=2)
    with pytest.raises(KeyboardInterrupt):
        reached.run(name="first", told=killed_after(reached, 0), units_per_second=0.2)

    code, _, err = command("migrate", "run", NAME)

    assert code == Exit.CONFLICT
    assert "runner first is at work until" in err


def test_a_paused_run_ends_with_a_failure(reached: Town, command: Command) -> None:
    deploy(reached.desk, row_layout=2)
    reached.alarm.append("settlement-prod-LimboOpen")

    code, out, _ = command("migrate", "run", NAME)

    assert code == Exit.FAILED
    assert "the alarm settlement-prod-LimboOpen is on" in out


def test_an_unknown_migration_is_named(command: Command) -> None:
    code, _, err = command("migrate", "plan", "no-such")

    assert (code, err) == (
        Exit.USAGE,
        f"settle: name: there is no migration no-such; this release has {NAME}\n",
    )


def test_an_expired_session_is_renewed_but_a_denial_is_raised(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = list[int]()
    expired, denied = (
        raising(client_error("DescribeAlarms", code)) for code in ("ExpiredToken", "AccessDenied")
    )

    def means(*_: Any) -> Means:
        sessions.append(len(sessions))
        return replace(town.means, alarm=expired if len(sessions) == 1 else lambda: None)

    monkeypatch.setattr(reach, "means", means)

    progress = reach.run(town.desk.stack, PARTS, FORWARD, 100, lambda _: None)

    assert (progress.phase, sessions) == (Phase.DONE, [0, 1])
    monkeypatch.setattr(reach, "means", lambda *_: replace(town.means, alarm=denied))
    with pytest.raises(ClientError, match="AccessDenied"):
        reach.run(town.desk.stack, PARTS, BACK, 100, lambda _: None)
