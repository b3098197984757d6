"""The bank's side of the earlier interface."""
