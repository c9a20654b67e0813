"""Fills the verify step from a KYC provider."""
