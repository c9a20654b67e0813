from collections.abc import Iterable, Mapping, Sequence

from settle.output.console import note, print_json, print_line, print_table

_SHOWN = (
    *("when", "order", "key", "account", "amount", "payment", "currency"),
    *("by", "approved_by", "break_glass", "request_id", "reason"),
)
NONE = "no order is on record in this time"


def as_table(pages: Iterable[Sequence[Mapping[str, str]]]) -> None:
    is_empty = True
    for page in pages:
        is_empty = False
        print_table(page, _SHOWN, right=("amount", "payment"))
    if is_empty:
        print_line(NONE)


def as_json(pages: Iterable[Sequence[Mapping[str, str]]], none: str = NONE) -> None:
    is_empty = True
    for page in pages:
        for order in page:
            is_empty = False
            print_json(order)
    if is_empty:
        note(none)
