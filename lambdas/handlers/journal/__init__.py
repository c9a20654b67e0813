"""The functions of the room `journal`."""
