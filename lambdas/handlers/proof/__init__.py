"""The functions of the room `proof`."""
