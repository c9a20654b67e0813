"""Ways to settle a payment and to reverse it, through the same seeded lives: `make rivals`."""
