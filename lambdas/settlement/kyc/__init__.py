"""The room of the KYC provider: it fills the verify step, behind a circuit, with reviews and a webhook."""
