"""The core without rooms settles, reverses, enters LIMBO and recovers.

It refuses holds for merchants, whose releases no sweep would make available.
"""

import json
import os
import subprocess
import sys

from tests.world.templates import PROJECT


def test_the_core_settles_reverses_enters_limbo_and_recovers_without_rooms() -> None:
    path = os.pathsep.join((str(PROJECT), str(PROJECT / "lambdas")))

    ended = subprocess.run(
        [sys.executable, "-m", "tests.core.alone"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "late_before": "PROCESSING",
        "statuses": {
            "paid": "SETTLED",
            "refused": "COMPENSATED",
            "stuck": "LIMBO",
            "late": "SETTLED",
            "shopper": "REJECTED",
        },
        "available": {
            "paid": 5_180,
            "refused": 10_000,
            "stuck": 5_180,
            "late": 5_180,
            "shopper": 10_000,
            "merchant.shop": 0,
            "bob": 500 + 2 * 4_772,
        },
        "pages": ["LimboEntered"],
    }
