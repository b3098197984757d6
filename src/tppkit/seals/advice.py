"""Advice in messages of rejections: the fields, digest and signature that the profile requires."""

from __future__ import annotations

from collections.abc import Collection

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, CREATED, EXPIRES
from tppkit.seals.profile import Format, SealProfile


def coverage_advice(fields: Collection[str], profile: SealProfile) -> str:
    """Describe the fields to cover.

    Args:
        fields: lower-case names that the profile requires for this request.
        profile: the dialect.
    """
    listed = [name.lower() for name in (*profile.covered, *profile.covered_if_present)]
    ordered = [name for name in listed if name in fields]
    names = " ".join([*ordered, *sorted(set(fields).difference(ordered))])
    return f'the profile {profile.name} requires "{names}"{", and nothing else" if profile.only_these else ""}'


def digest_fault(value: str, profile: SealProfile) -> str:
    """Describe the fault in the algorithms of a digest header; empty if there is none."""
    names = [part.strip(" \t").partition("=")[0] for part in value.split(",") if "=" in part]
    demanded = profile.digest_algorithm.upper().split(",") if profile.digest_required else ()
    if profile.digest_algorithms and not set(names) <= set(profile.digest_algorithms):
        wanted = f"accepts only {' or '.join(profile.digest_algorithms)}"
    elif names and not set(demanded) <= {name.upper() for name in names}:
        wanted = f"requires {profile.digest_algorithm}"
    else:
        return ""
    found = f"the {profile.digest_field} header has {shown(', '.join(names))}"
    return f"{found}; the profile {profile.name} {wanted}, as in {digest_form(profile)}"


def digest_form(profile: SealProfile) -> str:
    """Return the form of the digest header."""
    mark = ":" if profile.format is Format.RFC9421 else ""
    hashes = [f"{name}={mark}<base64>{mark}" for name in profile.digest_algorithm.split(",")]
    return f"{profile.digest_field}: {','.join(hashes)}"


def signature_form(profile: SealProfile) -> str:
    """Return the form of a Signature header of draft-cavage."""
    scheme = AUTHORIZATION_SCHEME if profile.carrier == "Authorization" else ""
    names = " or ".join(dict.fromkeys(wire for wire, _ in profile.algorithms))
    times = "".join([f"{name[1:-1]}=…," for name in (CREATED, EXPIRES) if name in profile.covered])
    quote = '"' if profile.signature_quoted else ""
    more = " ".join(profile.covered_if_present)
    return (
        f'{profile.carrier}: {scheme}keyId="…",algorithm="{names}",{times}headers="{" ".join(profile.covered)}",'
        f"signature={quote}…{quote}{f'; it also covers {more} if the request has them' if more else ''}"
    )


def with_form(error: FormatError, form: str, profile: SealProfile) -> FormatError:
    """Add the form that the profile expects to an error."""
    message = f"{error.message}; the profile {profile.name} expects {form}"
    return FormatError(error.code, message, clause=error.clause, offset=error.offset)
