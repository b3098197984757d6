"""The checks that the rules use, by subject. Each takes a certificate and a time, returns a fault or None, and never raises."""
