"""Name constraints: whether the names of a certificate are within those that the authorities above it may certify.

Every form of RFC 5280 section 4.2.1.10 is checked: directoryName (the subject included), dNSName, rfc822Name (the subject's
emailAddress if there is no rfc822Name), URI and iPAddress. A constraint on any other form rejects each certificate that has a name
of that form.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from tppkit.certificates import DistinguishedName
from tppkit.certificates.general_names import DIRECTORY_NAME, DNS_NAME, EMAIL, IP_ADDRESS, URI, GeneralName
from tppkit.certificates.names import ComparableName
from tppkit.errors import CertificateRejected
from tppkit.trust.path.links import Link

MAX_COMPARISONS = 50_000
_EMAIL_ADDRESS = "1.2.840.113549.1.9.1"
_CLAUSE = "RFC 5280 section 4.2.1.10"
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")  # RFC 5322 dot-atom
_HOST = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}")

# One name: its form, and its value as it is compared.
_Name = tuple[str, Any]


@dataclass(slots=True)
class _Limit:
    """The constraints of one authority on one form of name: it must be within one of `permitted`, within none of `excluded`."""

    permitted: list[Any] = field(default_factory=list)
    excluded: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Limits:
    """The constraints of a chain, from the anchor down to the link that was added last.

    Attributes:
        by_form: for each form of name the constraints of each authority, all of which apply.
        comparisons: how many names were compared; hostile certificates have many.
    """

    by_form: dict[str, list[_Limit]] = field(default_factory=dict)
    comparisons: int = 0

    def add(self, link: Link) -> None:
        """Add the constraints of an authority.

        Raises:
            CertificateRejected: `path.name-constraints`, it cannot be applied.
        """
        constraints = link.name_constraints
        if constraints is None:
            return
        if constraints.has_distance:  # RFC 5280 allows none, and ignoring it would widen the constraint
            raise _refused(link, "constrains names at a distance (minimum or maximum)")
        stated: dict[str, _Limit] = {}
        for base in constraints.permitted:
            stated.setdefault(base.form, _Limit()).permitted.append(_base(link, base))
        for base in constraints.excluded:
            stated.setdefault(base.form, _Limit()).excluded.append(_base(link, base))
        for form, limit in stated.items():
            self.by_form.setdefault(form, []).append(limit)

    def check(self, link: Link, names: Sequence[_Name]) -> None:
        """Check names of a certificate.

        Raises:
            CertificateRejected: `path.name-constraints`, `path.too-complex`.
        """
        for form, value in names:
            for limit in self.by_form.get(form, ()):
                self._check_name(link, form, value, limit)

    def _check_name(self, link: Link, form: str, value: Any, limit: _Limit) -> None:
        self.comparisons += len(limit.permitted) + len(limit.excluded)
        if self.comparisons > MAX_COMPARISONS:
            raise CertificateRejected("path.too-complex", f"there are too many names and name constraints above {link}")
        within = _WITHIN.get(form)
        if within is None:
            raise _refused(link, f"has a {form}, a form that is constrained above it, and is not processed")
        if any(within(value, base, True) for base in limit.excluded):
            raise _refused(link, f"has the {form} {_shown(value)}, which an authority above it may not name")
        if limit.permitted and not any(within(value, base, False) for base in limit.permitted):
            raise _refused(link, f"has the {form} {_shown(value)}, outside what an authority above it may name")


def _base(link: Link, base: GeneralName) -> Any:
    value = _value(base)
    if base.form == DNS_NAME and value and not _HOST.fullmatch(value):
        raise _refused(link, f"constrains DNS names by {value[:80]!r}, which is not one")
    return value


def _value(name: GeneralName) -> Any:
    """The value that is compared. One reader reads all names, so an unusual kind of string does not hide a name from exclusion."""
    return name.value.comparable if isinstance(name.value, DistinguishedName) else name.value


def _refused(link: Link, what: str) -> CertificateRejected:
    return CertificateRejected("path.name-constraints", f"{link} {what}", clause=_CLAUSE)


def _shown(value: object) -> str:
    texts = [str(text) for rdn in value for _, text in rdn] if isinstance(value, tuple) else [str(value)]
    return ", ".join(texts)[:120]


def _alternative_names_of(link: Link) -> list[_Name]:
    return [(name.form, _value(name)) for name in link.alternative_names]


def _names_of(link: Link) -> list[_Name]:
    names: list[_Name] = [(DIRECTORY_NAME, link.subject)] if link.subject else []
    names += _alternative_names_of(link)
    if not any(form == EMAIL for form, _ in names):
        addresses = link.certificate.subject.values(_EMAIL_ADDRESS)
        names += [(EMAIL, address) for address in addresses]
    return names


def _directory_within(name: ComparableName, base: ComparableName, excluding: bool) -> bool:
    return name[: len(base)] == base


def _dns_within(name: str, base: str, excluding: bool) -> bool:
    name, base = name.lower(), base.lower()
    if not _HOST.fullmatch(name.removeprefix("*.")):
        return (
            excluding  # a text that is no host name is within no permitted subtree, and may be within an excluded one
        )
    if not base or name == base or name.endswith("." + base):
        return True
    # A wildcard covers names below it, one of which may be excluded.
    return excluding and name.startswith("*.") and base.endswith(name[1:])


def _host_within(host: str, base: str) -> bool:
    host, base = host.lower(), base.lower()
    return host.endswith(base) and host != base if base.startswith(".") else host == base


def _email_within(address: str, base: str, excluding: bool) -> bool:
    local, at, host = address.rpartition("@")
    if not at or not _LOCAL_PART.fullmatch(local) or not _HOST.fullmatch(host):
        return excluding
    base_local, base_at, base_host = base.rpartition("@")
    if base_at:
        return local == base_local and host.lower() == base_host.lower()
    return _host_within(host, base)


def _uri_within(uri: str, base: str, excluding: bool) -> bool:
    try:
        host = urlsplit(uri).hostname or ""
    except ValueError:
        return excluding
    if not _HOST.fullmatch(host) or _is_address(host):
        return excluding  # RFC 5280: a URI without a host name is refused where URIs are constrained
    return _host_within(host, base)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _address_within(address: Any, base: Any, excluding: bool) -> bool:
    if isinstance(base, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return bool(address.version == base.version and address in base)
    return excluding


_WITHIN: Mapping[str, Callable[[Any, Any, bool], bool]] = MappingProxyType(
    {
        DIRECTORY_NAME: _directory_within,
        DNS_NAME: _dns_within,
        EMAIL: _email_within,
        URI: _uri_within,
        IP_ADDRESS: _address_within,
    }
)


def check_names(chain: Sequence[Link], at: datetime) -> None:
    """Check the names of a whole chain, the leaf first and the anchor last.

    The anchor's own constraints count too (RFC 5937 section 3.2). Self-issued authorities are not constrained from above, the
    leaf always is (RFC 5280 section 6.1.3 (b)).

    Raises:
        CertificateRejected: `path.name-constraints`, `path.too-complex`.
    """
    limits = _Limits()
    for depth in range(len(chain) - 1, -1, -1):
        link = chain[depth]
        is_constrained = depth == 0 or not link.is_self_issued
        if is_constrained and depth < len(chain) - 1 and limits.by_form:
            limits.check(link, _names_of(link))
        if link.name_constraints is not None:
            limits.add(link)
            if is_constrained:
                limits.check(link, _alternative_names_of(link))
