"""Checks of a payment by the stage's own code, between the hold and the release."""
