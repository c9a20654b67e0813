import json
from decimal import Decimal

import pytest

from settlement.core.model import strict_json
from settlement.core.model.strict_json import Malformed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 1}', "must have each field once, and has a twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "must have each field once, and has a twice"),
        (
            f'{{"{"n" * 50}\\n": 1, "{"n" * 50}\\n": 1}}',
            f"must have each field once, and has {'n' * 40} twice",
        ),
        ("\ufeff{}", "must begin without a byte order mark"),
        (b"\xef\xbb\xbf{}", "must begin without a byte order mark"),
        ("{}".encode("utf-16"), "must be JSON in UTF-8"),
        ("[1]".encode("utf-16-le"), "must be JSON: Expecting value: line 1 column 2 (char 1)"),
        (b'{"a": "\xff"}', "must be JSON in UTF-8"),
        ("[" * 100_000, "must be nested at most 100 levels deep"),
        ("[" * 100_000 + "]" * 100_000, "must be nested at most 100 levels deep"),
        ("[" * 1_200 + "]" * 1_200, "must be nested at most 100 levels deep"),
        ('{"a": ' + "[" * 100 + "1" + "]" * 100 + "}", "must be nested at most 100 levels deep"),
        ('{"a": NaN}', "must be JSON, which has no NaN"),
        ("-Infinity", "must be JSON, which has no -Infinity"),
        ('"\udcff"', "must be JSON in UTF-8"),
        ("", "must be JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{} {}", "must be JSON: Extra data: line 1 column 4 (char 3)"),
        ("9" * 5_000, "must be JSON: Exceeds the limit"),
    ],
)
def test_a_text_that_two_parsers_read_differently_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(Malformed) as refused:
        strict_json.parse(text)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "value", [None, {}, [], {"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}, "Zoë \u2028", 1.5]
)
def test_all_other_json_is_parsed(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
        assert strict_json.parse(text) == value


def test_json_may_be_nested_up_to_the_limit() -> None:
    assert strict_json.parse("[" * 100 + "1" + "]" * 100)


def test_a_decimal_fraction_may_be_kept_exactly() -> None:
    assert strict_json.parse("[0.10]", parse_float=Decimal) == [Decimal("0.10")]
