"""The interfaces as data and pure functions: no input or output, no clock, neither client nor server."""
