import os
from itertools import repeat
from unittest import mock

from handlers.books import project_entries
from settlement.books.rounds import Progress
from tests.world.functions import Context


def _projects() -> None:
    of_stage = {"BOOKS_CLUSTER": "cluster", "BOOKS_SECRET": "secret"}
    for _ in range(2):
        with (
            mock.patch.object(project_entries, "_progress", Progress()),
            mock.patch.dict(os.environ, of_stage),
        ):
            project_entries.handler({}, Context(repeat(170_000)))


SCENES = (("ProjectEntries", _projects),)
