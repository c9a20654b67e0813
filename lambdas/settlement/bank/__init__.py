"""Comparison of the bank's statements with the books."""
