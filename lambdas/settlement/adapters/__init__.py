"""The only modules that speak to AWS or HTTP."""
