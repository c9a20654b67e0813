from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line, print_table


@or_json
def swept(answer: Mapping[str, Any]) -> None:
    print_line(f"{answer['account']}: {answer['folded']} {answer['currency']} made available")
    if answer["minutes"]:
        print_table(answer["minutes"], ("minute", "folded"), right=("folded",))
