import pytest

from tests.world.tutorial import Shown, difference, renewed, rewritten, shown

PAGE = """
```console
$ settle start a.jsonl
key     a
…
escrow  0.00

$ settle local down
stopped  true
```
"""
EXPECTED = [
    "at                        key",
    "2026-11-22T03:10:56.402Z  first-b21ec07effd3fe3077",
    "…",
    "a  0.00",
]
SAME = ["at                        key", "2027-01-02T23:11:00.001Z  first-00000000000000ff", "x", "a  0.00"]


def test_the_commands_of_a_page_are_read_with_their_output() -> None:
    assert shown(PAGE) == [
        Shown("settle start a.jsonl", ["key     a", "…", "escrow  0.00"]),
        Shown("settle local down", ["stopped  true"]),
    ]


@pytest.mark.parametrize("real", [SAME, [*SAME, ""], [*SAME[:3], "y", *SAME[3:]]])
def test_outputs_may_differ_only_in_times_and_names(real: list[str]) -> None:
    assert difference(EXPECTED, real) == ""


@pytest.mark.parametrize(
    "real",
    [
        ["at                    key", "2027-01-02T23:11:00Z  first-00000000000000ff", "x", "a  0.00"],
        ["at    key", *SAME[1:]],
        [*SAME, "snapshot  2"],
        ["new", *SAME],
        [SAME[0], "new", *SAME[1:2], "x", SAME[3]],
        SAME[:3],
        [*SAME[:2], SAME[3]],
        [*SAME[:3], "a  1.00"],
    ],
    ids=["times", "width", "after", "before", "between", "missing", "nothing left out", "amount"],
)
def test_any_other_difference_is_found(real: list[str]) -> None:
    assert difference(EXPECTED, real)


def test_rewriting_a_page_keeps_its_omissions() -> None:
    outputs = [
        ["key         a", "snapshot    2", "status      SETTLED", "escrow      0.00"],
        ["stopped  false"],
    ]

    page = rewritten(PAGE, outputs)

    assert [one.lines for one in shown(page)] == [
        ["key         a", "…", "escrow      0.00"],
        ["stopped  false"],
    ]
    assert [difference(one.lines, real) for one, real in zip(shown(page), outputs, strict=True)] == ["", ""]
    assert rewritten(page, outputs) == page


def test_a_new_output_line_is_added_where_nothing_is_omitted() -> None:
    assert renewed(["a", "b"], ["a", "new", "b"]) == ["a", "new", "b"]
