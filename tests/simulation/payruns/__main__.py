"""Random lives of a pay run: `python -m tests.simulation.payruns --lives 20000 --from 1 --jobs 2`."""

import sys

import tests.world.environment  # noqa: F401 - the functions read it when they are imported
from tests.simulation.drawn_lives import main
from tests.simulation.payruns.drawn import outcome, told

if __name__ == "__main__":
    sys.exit(main("tests.simulation.payruns", outcome, told))
