"""The demo: the examples on both machines, a stuck reversal, an outage of the KYC provider, the proof."""
