"""The README of a test PKI's folder: the purpose of each file, and how to use it."""

from __future__ import annotations

from importlib.resources import files

from tppkit._clock import format_time
from tppkit.testpki.faults.valid_pki import judged_at
from tppkit.testpki.pki import Pki

_TEMPLATES = files("tppkit.testpki")
_FAULTS = (
    "| `faults/` | one fault each: a check rejects most (`verdict` in the manifest: `fails`), others break a recommendation"
    " (`warns`) or cause a notice (`notes`); the manifest has the reason, the command of the check and the codes that it reports |\n"
)


def make_readme(pki: Pki, *, password: str, with_faults: bool = False) -> str:
    """Write the README of a folder.

    Args:
        pki: The PKI in the folder.
        password: The password of the PKCS#12 files.
        with_faults: Whether the folder contains the catalogue of faults.
    """
    template = _TEMPLATES.joinpath("readme.md").read_text("utf-8")
    readme = template.format(
        name=pki.provider.name,
        organization=pki.provider.organization_identifier.text,
        roles=", ".join(pki.provider.roles),
        other=pki.other_provider.organization_identifier.text,
        password=password,
        faults=_FAULTS if with_faults else "",
    )
    if not with_faults:
        return readme
    faults = _TEMPLATES.joinpath("readme_faults.md").read_text("utf-8")
    return f"{readme}\n{faults.format(at=format_time(judged_at(pki)))}"
