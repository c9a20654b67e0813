"""The conditional writes of the saga, pure, each with the meaning of its failed condition."""
