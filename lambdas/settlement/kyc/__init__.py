"""Implements the verify step with a KYC provider."""
