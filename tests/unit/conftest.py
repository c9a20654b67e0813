"""Hypothesis as these tests use it: no wall clock, no database that differs from machine to machine."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, database=None, print_blob=True)
settings.load_profile("unit")
