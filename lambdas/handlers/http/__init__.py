"""The functions of the room `http`."""
