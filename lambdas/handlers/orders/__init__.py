"""The functions of the room `orders`."""
