import json
from typing import Any

import pytest

from handlers.payruns.pay_lines import RESERVED_MS
from infra import payruns
from infra.payruns import PayRunSettings
from settlement.payruns import bucket, paying
from tests.infra.evaluator import allows, policy
from tests.infra.payouts.test_settings import of_a_stage
from tests.infra.stack import allow, changed, granted_in
from tests.infra.test_least_privilege import grants, is_needed, of_the_table

FILES = ["${PayRunsFiles.Arn}/runs/*"]
OVER = {"EUR": "1000.00", "USD": "1000.00"}


def resources(**settings: Any) -> dict[str, Any]:
    return changed("prod", pay_runs=PayRunSettings(**settings))


def variables(function: str, **settings: Any) -> Any:
    return resources(**settings)[function]["Properties"]["Environment"]["Variables"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        *(({"lines_per_second": one}, "lines_per_second: must be") for one in (0, 1_001, 2.5, True)),
        *(({"lines_over": one}, "lines_over: must be") for one in (0, -1, 1.5, True)),
    ],
    ids=str,
)
def test_pay_run_settings_beyond_their_bounds_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PayRunSettings(**settings)


@pytest.mark.parametrize("over", [{"EUR": "1"}, {**OVER, "XXX": "1"}, {**OVER, "EUR": "0.001"}], ids=str)
def test_pay_run_limits_need_a_decimal_for_each_currency(over: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"pay_runs.over"):
        of_a_stage(pay_runs=PayRunSettings(over=over))


def test_approval_rules_and_pace_are_in_the_functions_variables() -> None:
    rules = json.loads(variables("TakeOrder", lines_over=7)["PAYRUNS"])

    assert rules == {"over": {}, "lines_over": 7}
    assert variables("PayLines", lines_per_second=9)["LINES_PER_SECOND"] == "9"
    assert "PAYRUNS" not in changed("prod")["TakeOrder"]["Properties"]["Environment"]["Variables"]


def test_run_files_are_private_kept_and_written_once_by_operators() -> None:
    found = resources()
    files = found["PayRunsFiles"]
    puts = {
        (name, one)
        for name in found
        if name.endswith("Role") or name.startswith("People")
        for one in granted_in(found, name)
        if one.resource in FILES and one.action == "s3:PutObject"
    }

    assert set(files["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
    assert files["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    assert files["DeletionPolicy"] == "RetainExceptOnCreate"
    once = {"Null": {"s3:if-none-match": "false"}}
    assert puts <= {("PeopleOperator", one) for one in allow("s3:PutObject", on=FILES, only_if=once)}
    assert "s3:PutObject" in str(found["PeopleOperator"])
    assert f"{bucket.PREFIX}*" == payruns.FILES


def test_the_pay_lines_role_allows_exactly_the_functions_calls() -> None:
    own = policy("local", "PayLines")
    files = {("s3:GetObject", FILES[0]), ("s3:ListBucket", "${PayRunsFiles.Arn}")}
    needed = of_the_table("PayLines")

    assert [one for one in needed if not allows(own, one)] == []
    needless = {
        (piece["Action"], piece["Resource"], str(piece.get("Condition")))
        for piece in grants(own)
        if not is_needed("local", "PayLines", piece)
    }
    assert {one[:2] for one in needless} == files, needless


def test_a_batch_ends_in_the_reserved_time_at_any_pace() -> None:
    slowest, _ = payruns._PER_SECOND

    assert paying.BATCH * 1_000 / slowest < RESERVED_MS
