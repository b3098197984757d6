"""The bank's side of the legacy interface."""
