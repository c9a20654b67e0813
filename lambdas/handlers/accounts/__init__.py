"""The functions of the room `accounts`."""
