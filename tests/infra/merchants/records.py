from infra.merchants import RELEASES

RECORDS = RELEASES
"""The records of the stream that PublishEvents passes on."""
