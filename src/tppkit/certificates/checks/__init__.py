"""What the rules ask, by subject. Each check takes a certificate and a time and gives a fault or None; it never raises."""
