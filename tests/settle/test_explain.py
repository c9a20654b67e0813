import json
import re
import tomllib

import pytest

from settle import explanations
from settle.exit_codes import Exit
from settlement.core.model import errors
from tests.settle.conftest import Command
from tests.statemachines.definitions import ALL
from tests.world.templates import PROJECT

EVERY = explanations.every()
WRITTEN = tomllib.loads((PROJECT / "settle/explanations.toml").read_text())


def test_exactly_the_errors_of_code_and_machines_are_explained() -> None:
    raised = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.SettlementError) and not kind.__subclasses__()
    }
    ends = {
        state["Error"]
        for machine in ALL.values()
        for state in machine["States"].values()
        if state["Type"] == "Fail" and "Error" in state
    }

    assert WRITTEN.keys() == EVERY.keys() == raised | ends | {"ReversalRequested", "Cancelled"}
    assert {name for name in WRITTEN if "meaning" in WRITTEN[name]} == EVERY.keys() - raised


@pytest.mark.parametrize("name", EVERY)
def test_the_page_that_an_explanation_names_exists(name: str) -> None:
    file, _, section = EVERY[name].page.partition("#")

    headings = re.findall(r"^#+ (.+)$", (PROJECT / "docs" / file).read_text(), re.MULTILINE)

    anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    assert not section or section in anchors


@pytest.mark.parametrize("name", EVERY)
def test_an_explanation_states_meaning_and_who_must_act(settle: Command, name: str) -> None:
    code, out, err = settle("explain", name.lower(), "--json")

    told = json.loads(out)
    assert (code, err) == (Exit.FINE, "")
    assert (told["error"], told["meaning"], told["what_to_do"]) == (
        name,
        EVERY[name].meaning,
        WRITTEN[name]["act"],
    )
    kind = explanations.kinds().get(name)
    final = {True: "is refused again", False: "may succeed"}
    assert told["same_call"] == (final[issubclass(kind, errors.Refusal)] if kind else None)


def test_a_new_key_is_advised_only_for_an_ended_payment() -> None:
    """While a payment may still go through, a second one under a new key would pay twice."""
    advised = [one["act"] for one in WRITTEN.values() if "new key" in one["act"]]

    assert advised
    guards = ("Once the payment is REJECTED or COMPENSATED, ", "Once the payment is COMPENSATED, ")
    unguarded = [act for act in advised if not act.startswith(guards)]
    assert unguarded == [WRITTEN["IdempotencyConflict"]["act"]], "a key with other content is another payment"


def test_an_explanation_is_printed_line_by_line_without_a_stack(settle: Command) -> None:
    code, out, err = settle("explain", "StoreUnavailable")

    assert (code, err) == (Exit.FINE, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["same_call"] == "may succeed"
    assert lines["page"] == "docs/runbooks/alarms.md#storeunavailable"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("InsuficientFunds", "do you mean InsufficientFunds"),
        ("nonsense-7", "docs/reference/errors.md has all names"),
        ("", "docs/reference/errors.md has all names"),
        ("x" * 5_000, "docs/reference/errors.md has all names"),
    ],
)
def test_an_unknown_error_name_gets_one_line_and_a_hint(settle: Command, name: str, hint: str) -> None:
    code, out, err = settle("explain", name)

    assert (code, out, len(err.splitlines())) == (Exit.NOT_FOUND, "", 1)
    assert hint in err
    assert len(err) < 300
