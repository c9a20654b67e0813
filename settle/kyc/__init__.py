"""The KYC provider's circuit."""
