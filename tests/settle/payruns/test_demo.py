from typing import Any

import pytest

from settle.local.demo.payrun import have_ended_well

PAID = ("SETTLED", None)


def lines(*ends: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [{"outcome": outcome, "why": why} for outcome, why in ends]


@pytest.mark.parametrize("why", ["KycCircuitOpen", "DeadlineExceeded", "States.Timeout", "Lambda.Unknown"])
def test_a_demo_tolerates_a_minority_reversed_for_lack_of_time(why: str) -> None:
    assert have_ended_well(lines(PAID, PAID))
    assert have_ended_well(lines(PAID, PAID, ("COMPENSATED", why)))
    assert not have_ended_well(lines(PAID, ("COMPENSATED", why)))


@pytest.mark.parametrize(
    "end",
    [
        *(("COMPENSATED", why) for why in ("KycRejected", "CapExceeded", "States.Runtime", None)),
        *(
            ("LIMBO", "States.Timeout"),
            ("PROCESSING", None),
            ("REFUSED", "KycCircuitOpen: no"),
            ("UNREADABLE", None),
        ),
    ],
)
def test_a_demo_with_any_unexpected_outcome_has_failed(end: tuple[str, str | None]) -> None:
    assert not have_ended_well(lines(PAID, PAID, end))
