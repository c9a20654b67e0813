"""Measure what a settlement costs, beside other ways to do the same business: `make bench`."""
