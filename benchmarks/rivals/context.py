"""The context that Lambda passes to a function."""


class Context:
    """A function's context, with plenty of time left."""

    function_name = "bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:bench"
    aws_request_id = "4f0b2c9e-0000-4000-8000-000000000001"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds that are left."""
        return 8_000
