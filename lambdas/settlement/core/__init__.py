"""The saga alone: claim, hold, verify, release, fee, compensation, LIMBO and recovery. It imports no room."""
