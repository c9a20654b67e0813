from infra.merchants import RELEASES

RECORDS = RELEASES
"""Filter of the releases that PublishEvents passes on to the sweep."""
