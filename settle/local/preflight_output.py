from settle.output.console import or_json, print_line, print_table


@or_json
def preflight(found: list[dict[str, str]]) -> None:
    print_table(found, ("check", "verdict", "found"))
    for one in found:
        if one["do"]:
            print_line(f"{one['check']}: {one['do']}")
