"""The AWS resources of the settlement saga."""
