"""The saga. It never imports a room."""
