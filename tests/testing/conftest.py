"""The plugin's fixtures, also where the checkout is not installed."""

from tppkit.testing import tppkit_bank, tppkit_gateway, tppkit_pki  # noqa: F401
