"""The acceptance of a deployed stack: checks that move money of their own, and the proof of the books."""
