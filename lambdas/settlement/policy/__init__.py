"""The decisions of the saga: pure functions over the model, which build the ledger's transactions."""
