"""Orders of people: decisions on cases of LIMBO, reversals, proposals and approvals."""
