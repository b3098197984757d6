"""The trust layer of a PSD2 third-party provider (TPP).

Import the packages that you need: `tppkit.certificates`, `tppkit.trust`, `tppkit.seals`, `tppkit.client`, `tppkit.evidence`,
`tppkit.testpki`, `tppkit.sandbox`. Nothing is imported here, so that each package costs only what it needs.
"""

__version__ = "0.1.0"
