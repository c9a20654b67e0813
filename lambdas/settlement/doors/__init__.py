"""The doors beside StartExecution: the start queue, the HTTP API, and a cancellation."""
