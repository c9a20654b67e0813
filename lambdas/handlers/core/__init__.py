"""The functions of the core."""
