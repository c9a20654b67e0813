import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.test_malformed_rows import SHOP, town
from tests.world.environment import NOW

__all__ = ["town"]


def test_a_malformed_row_delays_only_the_sweep_of_its_minute(town: Desk, command: Command) -> None:
    good = next(row for row in town.ledger.rows() if row["pk"].startswith(f"ENTRIES#{SHOP}"))
    faults: list[dict[str, Any]] = [
        {"version": 1},
        {"version": "1", "folded": {}},
        {"version": 1, "folded": {"00": "4772"}},
        {"version": Decimal("1.5"), "folded": {}},
        {"version": 1, "folded": {"00": Decimal("1.5")}},
    ]
    minutes = []
    for number, fault in enumerate(faults):
        at = timestamp(NOW - timedelta(days=1, minutes=number))
        key = f"order-spoilt-m{number:03}"
        place = {"pk": good["pk"], "sk": f"{at}#{key}:release"}
        town.ledger.put(good | place | {"posted_at": at})
        town.ledger.put({**keys.swept(good["pk"], at[: keys.MINUTE]), **fault})
        minutes.append(at[: keys.MINUTE])

    code, out, err = command("account", "sweep", SHOP, "--json")

    swept = json.loads(out)
    assert (code, swept["folded"]) == (1, "47.72")
    assert [minute for minute in minutes if minute not in err] == []
    code, out, err = command("account", "show", SHOP)
    assert (code, "not known how much is not available yet" in out) == (1, True)
    assert [minute for minute in minutes if minute not in err] == []
