from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line


@or_json
def filled(answer: Mapping[str, Any]) -> None:
    print_line(f"{answer['rows']} rows copied to the sealed journal, in {len(answer['objects'])} objects")
    for name in answer["objects"]:
        print_line(name)
