"""Random lives of a payout: `python -m tests.simulation.payouts --lives 20000 --from 1 --jobs 2`."""

import sys

from tests.simulation.drawn_lives import main
from tests.simulation.payouts.drawn import outcome, told

if __name__ == "__main__":
    sys.exit(main("tests.simulation.payouts", outcome, told))
