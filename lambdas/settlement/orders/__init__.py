"""The room of people's orders on settlements: decisions on LIMBO, reversals, and four eyes."""
