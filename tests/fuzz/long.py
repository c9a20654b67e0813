"""Fuzzes the functions, guided by coverage: `python -m tests.fuzz.long`.

Each function has its own process, in turn; `--handler` runs only one function. A broken claim ends the run
and prints an input for `tests/fuzz/kept.py`. `--corpus` keeps inputs that reach new code for the next run.
"""

import argparse
import gc
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["settlement", "handlers"], enable_loader_override=False):
    from tests.fuzz.stage import staged  # first: it sets the functions' environment

    from tests.fuzz.cases import FUNCTIONS, draw, run  # isort: skip

INPUT_BYTES_MAX = 256
REPORTED_EACH = 50_000


class Provided:
    def __init__(self, data: bytes) -> None:
        self._data = atheris.FuzzedDataProvider(data)

    def below(self, bound: int) -> int:
        return int(self._data.ConsumeIntInRange(0, bound - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--handler", choices=FUNCTIONS)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, help="by default another one in each run")
    parser.add_argument("--corpus", type=Path, help="a folder that the run reads and adds to")
    asked = parser.parse_args()
    if asked.handler is None:
        for name in FUNCTIONS:
            subprocess.run(
                [sys.executable, "-m", "tests.fuzz.long", *sys.argv[1:], "--handler", name], check=True
            )
        return
    options = [f"-atheris_runs={asked.runs}", f"-max_len={INPUT_BYTES_MAX}", "-len_control=0", "-timeout=60"]
    options += ["-verbosity=0", "-rss_limit_mb=4096"]
    if asked.seed is not None:
        options.append(f"-seed={asked.seed}")
    if asked.corpus:
        asked.corpus.mkdir(parents=True, exist_ok=True)
        options += [f"-artifact_prefix={asked.corpus.parent}/", str(asked.corpus)]
    ends: Counter[str] = Counter()
    began = time.monotonic()

    def report() -> None:
        done, seconds = ends.total(), time.monotonic() - began
        print(
            f"{asked.handler}: {done} inputs in {seconds:.0f} s, {done / seconds:.0f} a second:"
            f" {dict(ends.most_common())}",
            file=sys.stderr,
            flush=True,
        )

    gc.freeze()  # imported modules stay loaded
    with staged() as stage:

        def attack(data: bytes) -> None:
            case = draw(asked.handler, Provided(data))
            try:
                ends[run(stage, case)] += 1
            except Exception as fault:
                print(f"{type(fault).__name__}: {fault}; keep {case!r}", file=sys.stderr, flush=True)
                raise
            if ends.total() % REPORTED_EACH == 0 or ends.total() == asked.runs:
                report()

        atheris.Setup([sys.argv[0], *options], attack)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
