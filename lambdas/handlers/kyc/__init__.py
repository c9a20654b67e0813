"""The functions of the room `kyc`."""
