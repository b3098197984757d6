"""What the verifier still refuses in a request once every cause that was found is mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tppkit.seals.diagnose.digests import DIGEST_REPLACED
from tppkit.seals.diagnose.examining import Case, DigestState, Found, is_coverage_known
from tppkit.seals.diagnose.judging import UNCOVERED, Refusal, refusal
from tppkit.seals.diagnose.mending import mend_request
from tppkit.seals.diagnose.report import Cause
from tppkit.seals.profile import Format

_TIMES = ("signature.created", "signature.expired")


def still_refused(case: Case, found: Found, causes: Sequence[Cause]) -> Iterator[Refusal]:
    """What the verifier refuses, the signature left out of account."""
    message = case.message
    mistakes = frozenset(cause.name for cause in causes)
    if found.state is DigestState.REPLACED:  # told by another cause where the header stands twice
        mistakes |= {DIGEST_REPLACED.name}
    parameters = found.seen.parameters
    if not is_coverage_known(case, found):
        parameters, mistakes = parameters._replace(headers=()), mistakes | {UNCOVERED.name}
    if case.profile.format is not Format.RFC9421:
        message = mend_request(
            message,
            parameters=parameters,
            certificate=case.certificate,
            profile=case.profile,
            mistakes=mistakes,
            at=case.given.at,
        )
    for at in dict.fromkeys((case.given.at, None)):
        given = case.given._replace(at=at)
        refused = refusal(message, certificate=case.certificate, profile=case.profile, given=given, any_signature=True)
        if refused is None:
            return
        if refused.code in _TIMES:
            if at is not None:
                yield refused
            continue
        if not _is_told(refused.code, found, causes):
            yield refused
        return


def _is_told(code: str, found: Found, causes: Sequence[Cause]) -> bool:
    """A refusal that cannot be mended away but stands among the causes already, or among what is not explained."""
    family = {
        "digest": ("digest-", "body-", "json-", "form-"),
        "key-id": ("key-id-",),
        "structured": ("digest-rfc-3230",),
        "key": ("key-",),
        "profile": ("key-unusable",),
        "certificate": ("key-", "cert"),
    }
    if code.startswith(("digest.", "base64.")) and found.state is DigestState.FAILS:
        return found.digest is None or bool(found.digest.left or found.digest.mistakes)
    beginnings = family.get(code.partition(".")[0], ())
    if code == "signature.algorithm":
        beginnings = ("algorithm-", "key-unusable")
    if code == "signature.uncovered":  # a header that is not there cannot be covered by a mend
        beginnings = ("request-id-missing", "header-not-sent", "covered-absent")
    return any(cause.name.startswith(beginnings) for cause in causes) if beginnings else False
