"""The saga. It never imports a room (handlers/rooms.py)."""
