"""What other banks' dialects of sealing leave open."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
DIALECTS: tuple[Assumption, ...] = (
    Assumption(
        "dialects", "dialects", "that banks differ from the document",
        "the document's rules in the profile psd2-v1, which is the default; one row for each other bank or gateway, with its source; "
        "gaps are filled from the guidelines and listed",
        "a provider calls many banks, whose dialects differ", "seals.PROFILES; dataclasses.replace",
    ),
    Assumption(
        "meaning-of-hs", "dialects", "what the algorithm hs2019 means for an RSA key",
        "nothing in the document's profile; RSASSA-PSS with SHA-512 under cavage-12", "the registry of draft-cavage-12",
        "seals.SealProfile.algorithms",
    ),
    Assumption(
        "clock-skew", "dialects", "how far a covered Date, and the times of signing and of expiry, may be off; age and life are the row's",
        "five minutes", "usual in specifications of signed requests", "seals.SealPolicy(clock_skew=)",
    ),
    Assumption(
        "pem-in-header", "dialects", "the form of a PEM certificate in a header, which cannot contain line breaks",
        "written without line breaks; also read with spaces in their place", "both occur", "seals.CertificateForm",
    ),
    Assumption(
        "uncovered-request-id", "dialects", "the request id in a dialect whose seals cover none",
        "the sandbox takes it unverified from the dialect's header, or from X-Request-ID if the dialect has none; without one the "
        "request is refused",
        "section 4 requires X-Request-ID on every request, and a payment that is sent twice must be one",
        "seals.SealProfile.request_id",
    ),
)
# fmt: on
