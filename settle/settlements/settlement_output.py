from collections.abc import Mapping
from typing import Any

from settle.output import spark
from settle.output.console import note, or_json, print_line, print_record, print_table


@or_json
def settlement(result: Mapping[str, Any]) -> None:
    apart = ("executions", "activity", "entries", "retry")
    print_record({name: value for name, value in result.items() if name not in apart})
    if result["activity"]:
        print_line(result["activity"])
    columns = ("posted_at", "step", "moved", "amount", "escrow", "note")
    print_line()
    print_table(result["entries"], columns, right=("amount", "escrow"))
    times = [("", result["claimed_at"]), *((one["step"], one["posted_at"]) for one in result["entries"])]
    if told := spark.line(times):
        print_line(f"timeline: {told}")
    retry = result["retry"]
    print_line()
    print_line("Is it safe to retry this key?")
    print_line(f"  the same key: {retry['same_key']}")
    print_line(f"  a new key:    {retry['new_key']}")
    for line in retry["evidence"]:
        print_line(f"  evidence:     {line}")


@or_json
def started(answer: Mapping[str, Any]) -> None:
    if "error" not in answer:
        print_record(answer)
    else:
        note(f"{answer['key']}: {answer['error']}: {answer['message']}")
