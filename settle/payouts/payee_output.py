from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line, print_record


@or_json
def payee(told: Mapping[str, Any]) -> None:
    print_record({name: value for name, value in told.items() if name != "confirm"})
    if "confirm" in told:
        print_line("Another person confirms it, with data from the payee's own papers:")
        print_line(f"  {told['confirm']}")
