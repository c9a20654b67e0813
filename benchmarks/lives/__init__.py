"""Compare ways to settle and reverse a payment, in the same seeded lives: `make rivals`."""
