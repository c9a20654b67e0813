"""The domain of the settlement saga: what a settlement is, and the one way in which money moves."""
