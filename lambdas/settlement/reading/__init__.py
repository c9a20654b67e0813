"""The room of outcomes and statements over HTTP."""
