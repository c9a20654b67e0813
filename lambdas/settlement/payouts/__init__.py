"""Payouts: money that leaves for a bank, whose outcome may be unknown and which may come back."""
