"""Trusted lists (ETSI TS 119 612): verified, read, and asked who was qualified for what, and when."""
