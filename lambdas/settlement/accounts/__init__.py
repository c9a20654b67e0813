"""The room of people's orders on accounts: deposits, withdrawals, freezes."""
