"""The bank's side of the PSD2 interface."""
