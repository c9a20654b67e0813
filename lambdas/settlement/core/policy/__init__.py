"""The decisions of the saga, pure."""
