"""Checks of a payment, by code that a deployment adds. They run between the hold and the release."""
