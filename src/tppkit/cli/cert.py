"""`tppkit cert`: what certificates and requests say, and whether they hold."""

from __future__ import annotations

import click

from tppkit.cli.cert_check import check
from tppkit.cli.cert_compare import pair, renewal
from tppkit.cli.cert_show import show


@click.group()
def cert() -> None:
    """Read, check and compare eIDAS certificates.

    A certificate is taken as PEM (also bundles: the first certificate counts, the others may stand above it), DER, one-line
    base64 of either, URL-escaped PEM, RFC 9440 or PKCS#12; - is standard input.
    """


for command in (show, check, pair, renewal):
    cert.add_command(command)
