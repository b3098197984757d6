"""Signers behind one protocol: a key in memory, a device, a service, or functions of the caller.

A signer has a public key and one algorithm. `sign` blocks; `sign_async` does not block an event loop. A signer that has only one
of the two raises `signer.sync-only` or `signer.async-only` for the other. Import them from `tppkit.httpsig`.
"""
