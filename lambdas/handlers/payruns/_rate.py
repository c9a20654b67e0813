import os


def lines_per_second() -> float:
    return float(os.environ["LINES_PER_SECOND"])
