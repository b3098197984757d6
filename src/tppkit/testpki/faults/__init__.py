"""A catalogue of test certificates, chains, CRLs and OCSP responses with one fault each, and the codes that a check reports."""
