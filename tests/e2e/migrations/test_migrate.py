import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from settle.orders import partial_reversal
from settlement.core.ledger import keys
from tests.e2e.embedded import SETTLE, Embedded, embedded_aws, new_account, new_request
from tests.e2e.test_upgrade import Load, deploy, sources

pytestmark = pytest.mark.long

NAME = "parts-by-name"
PAID, KILLS = 12, 5
WHY = "one came back"


class Town:
    """Settled payments with one reversed part each, on a stage with the first layout."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded, payee = embedded, new_account(embedded, "hana")
        self.keys: list[str] = []
        for _ in range(PAID):
            request = new_request(embedded, payee=payee)
            assert embedded.settle("start", "-", stdin=json.dumps(request)).returncode == 0
            self.keys.append(request["key"])
            self.reverse(request["key"], 1)

    def reverse(self, key: str, part: int) -> None:
        partial_reversal.reverse_part(self.embedded.stack, key, "1.00", WHY, part)

    def rows(self) -> list[dict[str, Any]]:
        return [self.embedded.settlement(key) for key in self.keys]

    def counted(self, name: str) -> int:
        return sum(name in row for row in self.rows())


def deployed(embedded: Embedded, folder: Path, row_layout: int) -> None:
    deploy(embedded, folder, row_layout=row_layout, migration=NAME)
    (stack,) = embedded.stack.client("cloudformation").describe_stacks(StackName=embedded.stack.name)[
        "Stacks"
    ]
    found = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
    record = embedded.home / "local.json"
    told = json.loads(record.read_text())
    told["outputs"] |= {name: found[name] for name in ("StageConfig", "MigrationRoleArn")}
    record.write_text(json.dumps(told))
    embedded.__dict__.pop("stack")


def version(embedded: Embedded) -> int:
    row = embedded.stack.store.read(keys.migration(NAME))
    return int(row["version"]) if row else 0


def kill_in_the_middle(embedded: Embedded) -> None:
    """Start `settle migrate run` at its slowest, and kill it after some writes of its progress."""
    before = version(embedded)
    command = [str(SETTLE), "migrate", "run", NAME, "--units-per-second", "1"]
    running = subprocess.Popen(command, env=embedded.environment, stderr=subprocess.PIPE, text=True)
    try:
        embedded.wait_for(lambda: version(embedded) > before + 1 or running.poll() is not None)
        assert running.poll() is None, running.communicate()
    finally:
        running.kill()
        running.communicate()


def end_its_lease(embedded: Embedded) -> None:
    embedded.stack.client("dynamodb").update_item(
        TableName=embedded.stack.outputs["TableName"],
        Key={name: {"S": value} for name, value in keys.migration(NAME).items()},
        UpdateExpression="SET leased_until = began_at",
    )


@contextmanager
def parts_coming(town: Town) -> Iterator[None]:
    failed: list[BaseException] = []

    def reverse() -> None:
        try:
            for part in (2, 3):
                for key in town.keys[::3]:
                    town.reverse(key, part)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=reverse)
    thread.start()
    yield
    thread.join()
    assert failed == []


def test_rows_migrate_under_load_despite_five_kills_of_the_runner(tmp_path: Path) -> None:
    with embedded_aws() as embedded:
        embedded.up()
        town = Town(embedded)
        assert town.counted("parts") == PAID
        assert embedded.settle("migrate", "run", NAME).returncode == 1  # the stage still writes the first
        source = sources(tmp_path / "same", upgraded=False)
        deployed(embedded, source, 2)
        assert embedded.told("migrate", "plan", NAME)["rows"] == PAID
        with Load(embedded) as load, parts_coming(town):
            for _ in range(KILLS):
                kill_in_the_middle(embedded)
                end_its_lease(embedded)
            done = embedded.told("migrate", "run", NAME, "--units-per-second", "100")
        ends = load.ends()

        assert (done["phase"], town.counted("parts"), town.counted("reversals_in_part")) == ("DONE", 0, PAID)
        assert {one["status"] for one in ends} == {"SUCCEEDED"}
        verified = embedded.told("migrate", "verify", NAME)
        assert (verified["right"], verified["left"], verified["faults"]) == (PAID, [], [])
        assert sum(row["reversals_in_part"] for row in town.rows()) == PAID + 2 * len(town.keys[::3])
        events = [row["sequence"] - row["reversals_in_part"] for row in town.rows()]
        assert len(set(events)) == 1, "a migration makes no event"
        assert embedded.conserved()

        deployed(embedded, source, 1)
        embedded.told("migrate", "run", NAME, "--back", "--units-per-second", "100")
        assert (town.counted("parts"), town.counted("layout")) == (PAID, 0)
        assert embedded.conserved()
