"""The functions of the room `paging`."""
