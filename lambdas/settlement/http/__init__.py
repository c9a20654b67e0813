"""Who calls over HTTP, and the status of an answer."""
