"""Run a function whose name lookups are slow and lead to silent addresses.

The embedded AWS starts each function with the interpreter in its variable `PYTHON`. Here, that is this
program, which gets the usual arguments: `-m awslambdaric` and the handler. The file in `DAY_NAMES` has the
seconds of a lookup of the provider, and the ports that it finds.
"""

import json
import os
import runpy
import socket
import sys
import time
from pathlib import Path
from typing import Any

HOST = "kyc.day.invalid"
_look_up = socket.getaddrinfo


def look_up(host: Any, port: Any, *more: Any, **named: Any) -> list[Any]:
    """Look up the provider's addresses at this hour of the day."""
    if host != HOST:
        return _look_up(host, port, *more, **named)
    names = json.loads(Path(os.environ["DAY_NAMES"]).read_text())
    time.sleep(names["seconds"])
    place = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    return [(*place, ("127.0.0.1", listening)) for listening in names["ports"]]


if __name__ == "__main__":
    socket.getaddrinfo = look_up
    del sys.path[0]  # the folder of this file
    sys.argv = sys.argv[2:]
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
