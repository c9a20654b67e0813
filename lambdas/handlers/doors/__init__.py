"""The functions of the room `doors`."""
