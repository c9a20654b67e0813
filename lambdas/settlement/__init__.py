"""The domain of the settlement saga, and the one way in which money moves."""
