import time
import urllib.error
import urllib.request

from settle.exit_codes import CommandFailed, Exit
from settle.local import processes, state
from settle.local.record import Running
from settle.output.console import note

BUSY_SECONDS_MAX = 60

ANSWER_SECONDS_MAX = 5


def running() -> Running | None:
    """Return the record of the embedded AWS if it runs with the app deployed, else None.

    Raises CommandFailed if it runs and does not answer.
    """
    found = started()
    if found is None or not found.outputs:
        return None
    if not answers(found):
        note(f"the embedded AWS is running, but busy; waiting for it for {BUSY_SECONDS_MAX} s at most")
        if not answers_in_time(found, BUSY_SECONDS_MAX):
            if started() is None:
                return None
            raise CommandFailed(
                Exit.FAILED,
                f"the embedded AWS is running, but has not answered for {BUSY_SECONDS_MAX} s: it is busy;"
                " try again, or end it with `settle local down`",
            )
    return found


def absence() -> str:
    left = sorted({process.pid for process in processes.ours()})
    if not left:
        return "the embedded AWS is not running; start it with `settle local up`"
    return (
        f"the embedded AWS is not ready, but has processes ({', '.join(map(str, left))}): `settle local up`"
        " is at work, or was killed; repeat it, or end them with `settle local down`"
    )


def started() -> Running | None:
    found = state.read()
    return found if found and any(process.pid == found.pid for process in processes.ours()) else None


def answers(found: Running) -> bool:
    try:
        with urllib.request.urlopen(
            f"{found.endpoint_url}/_ministack/health", timeout=ANSWER_SECONDS_MAX
        ) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def answers_in_time(found: Running, seconds: float) -> bool:
    """Return whether the embedded AWS answers within `seconds`, before its process ends."""
    give_up_at = time.monotonic() + seconds
    while not answers(found):
        if time.monotonic() > give_up_at or processes.has_ended(found.pid):
            return False
        time.sleep(0.1)
    return True
