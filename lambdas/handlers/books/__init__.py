"""The functions of the room `books`."""
