"""The clients of AWS that several rooms use."""
