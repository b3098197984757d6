"""The plugin's fixture, also where the checkout is not installed."""

from tppkit.testpki.pytest_plugin import tppkit_pki  # noqa: F401
