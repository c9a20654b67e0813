"""Compare the cost of a settlement with other ways to do the same business: `make bench`."""
