"""The functions of the room `reading`."""
