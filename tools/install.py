"""Run a long installation, and print its progress and time at least every ten seconds.

`python3 tools/install.py "Python packages" pip install …`. It needs the standard library alone: it runs
before anything is installed. The command's own output is shown only if the command fails.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO

TELL_EVERY_SECONDS = 10
STOP_SECONDS_MAX = 10
WIDTH = 80
INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as in shells."""

NOT_FOUND = 127
"""The exit code for a program that cannot be started, as in shells."""


def install(title: str, command: list[str]) -> int:
    """Run the command to its end; return its exit code."""
    began = time.monotonic()
    lines: deque[str] = deque(maxlen=200)
    _say(f"{title} ...")
    try:
        # In a session of its own: Ctrl-C reaches this program alone, which then ends all processes of it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as missing:
        print(f"{title}: {missing}", file=sys.stderr)
        return NOT_FOUND
    try:
        reader = threading.Thread(target=_collect, args=(process.stdout, lines), daemon=True)
        reader.start()
        while process.poll() is None:
            try:
                process.wait(TELL_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                _say(f"  {_since(began):>5}  {lines[-1] if lines else 'started'}")
        reader.join(STOP_SECONDS_MAX)
    except KeyboardInterrupt:
        _stop(process)
        _say(f"{title}: interrupted")
        return INTERRUPTED
    except BaseException:  # such as a closed pipe: nothing may go on writing into the environment
        _stop(process)
        raise
    if process.returncode:
        print("\n".join(list(lines)), file=sys.stderr)
        _say(f"{title}: failed, see above")
    else:
        _say(f"  {_since(began):>5}  done")
    return process.returncode


def _collect(output: IO[str], lines: deque[str]) -> None:
    with output:
        lines.extend(filter(None, map(str.strip, output)))


def _stop(process: subprocess.Popen[str]) -> None:
    """End the command and its children; a second Ctrl-C changes nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, end)
            process.wait(STOP_SECONDS_MAX)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def _say(text: str) -> None:
    print(text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}...", flush=True)


if __name__ == "__main__":
    for ended_by in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ended_by, signal.default_int_handler)
    sys.exit(install(sys.argv[1], sys.argv[2:]))
