"""Actions: they start executions, hand decisions over and open accounts, and follow the effect."""
