"""The same chains judged by an independent implementation of RFC 5280: pyhanko-certvalidator."""

from __future__ import annotations

from datetime import timedelta

import pytest
from second_opinion import AT, they_believe, we_believe

from tppkit.certificates import EidasCertificate
from tppkit.testpki.profiles import key_usage


@pytest.fixture(scope="module")
def chains(certify) -> dict[str, tuple[bool, list[EidasCertificate]]]:
    """What a chain is, whether it holds, and its certificates from the root to the leaf."""
    early = {"ends": AT - timedelta(days=1)}
    root, other, namesake = certify("Root"), certify("Other"), certify("Root")
    issuing, expired = certify("Issuing", root, path_length=0), certify("Issuing", root, **early)
    below = certify("Below", issuing)
    no_authority = certify("Between", root, extensions=(key_usage("digital_signature"),))

    def chain(issuer, *between, root=root, **leaf):
        return [one.certificate for one in (root, *between, certify("leaf", issuer, ca=False, **leaf))]

    return {
        "direct": (True, chain(root)),
        "through an authority": (True, chain(issuing, issuing)),
        "other root": (False, chain(issuing, issuing, root=other)),
        "namesake of the root": (False, chain(issuing, issuing, root=namesake)),
        "intermediate missing": (False, chain(issuing)),
        "intermediate expired": (False, chain(expired, expired)),
        "intermediate is no authority": (False, chain(no_authority, no_authority)),
        "path too long": (False, chain(below, below, issuing)),
        "leaf expired": (False, chain(issuing, issuing, **early)),
        "leaf not yet valid": (False, chain(issuing, issuing, starts=AT + timedelta(days=1))),
        "last moment": (True, chain(issuing, issuing, ends=AT)),
        "first moment": (True, chain(issuing, issuing, starts=AT)),
    }


def test_both_give_the_same_verdict(chains):
    expected = {name: (holds, holds) for name, (holds, _) in chains.items()}
    assert {name: (we_believe(chain), they_believe(chain)) for name, (_, chain) in chains.items()} == expected
