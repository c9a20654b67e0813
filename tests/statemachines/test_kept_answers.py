"""Answers kept beside the input: each field that a state reads was selected, and is always present."""

import json
import re

import pytest

from tests.statemachines.definitions import DEFINITIONS
from tests.statemachines.handlers import answered
from tests.statemachines.test_data_flow import KEPT, SELECTED


@pytest.mark.parametrize("name", SELECTED)
def test_a_field_read_from_a_kept_answer_was_selected_and_is_in_every_answer(name: str) -> None:
    """A path into an answer that selects nothing also fails with States.Runtime."""
    kept = KEPT[name].removeprefix("$.")
    selected = {key.removesuffix(".$") for key in SELECTED[name]}
    in_answer = {path.removeprefix("$.Payload.") for path in SELECTED[name].values()}
    everything = json.dumps(DEFINITIONS["settlement"])

    assert set(re.findall(rf"\$\.{kept}\.(\w+)", everything)) == selected
    assert f'"$.{kept}"' not in everything.replace(f'"ResultPath": "$.{kept}"', "")
    assert answered(name)
    for answer in answered(name):
        assert in_answer <= answer
