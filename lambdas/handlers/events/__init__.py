"""The functions of the room `events`."""
