"""Run each way in its own process: ways patch their imports, and some leave threads behind."""

import logging
import multiprocessing
import os
import sys
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection

from benchmarks.lives import ways
from benchmarks.lives.judge import Outcome


def played(name: str, url: str, seeds: range) -> Sequence[Outcome]:
    """Return the outcomes of a way's lives. Raises EOFError if its process fails."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_child, args=(there, name, url, seeds))
    process.start()
    there.close()
    outcomes: Sequence[Outcome] = here.recv()
    process.join()
    return outcomes


def _child(connection: Connection, name: str, url: str, seeds: range) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with open(os.devnull, "w") as sys.stdout:  # before the imports: loggers keep the stream
        connection.send(ways.play(name, url, seeds))
    connection.close()
    os._exit(0)  # threads of hanging workflows may be left
