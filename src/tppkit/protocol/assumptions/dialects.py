"""What other banks' dialects of sealing leave open."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
DIALECTS: tuple[Assumption, ...] = (
    Assumption(
        "dialects", "dialects", "that banks differ from the document",
        "the document's rules under the profile psd2-v1, which is the default; one row for each other bank or gateway, whose source "
        "is named, and whose gaps are filled from the guidelines and named too",
        "a provider calls many banks, and no two of them agree", "seals.PROFILES; dataclasses.replace",
    ),
    Assumption(
        "meaning-of-hs", "dialects", "what the algorithm hs2019 means for an RSA key",
        "nothing in the document's profile; RSASSA-PSS with SHA-512 under cavage-12", "the registry of draft-cavage-12",
        "seals.SealProfile.algorithms",
    ),
    Assumption(
        "clock-skew", "dialects", "how far a covered Date, and the times of signing and of expiry, may be off; age and life are the row's",
        "five minutes", "what the field's specifications of signed requests take", "seals.SealPolicy(clock_skew=)",
    ),
    Assumption(
        "age-of-a-date", "dialects", "for how long a seal whose only time is a covered Date counts; then a provider makes a new one for "
        "the same request",
        "five minutes", "as far as clock-skew lets a Date be off", "client.credentials.DATE_LIFETIME",
    ),
    Assumption(
        "pem-in-header", "dialects", "how a certificate in PEM stands in a header, which holds no line break",
        "without its line breaks when written; spaces in their places are read", "both are seen", "seals.CertificateForm",
    ),
    Assumption(
        "uncovered-request-id", "dialects", "what names a request in a dialect whose seals cover no id of it",
        "the sandbox takes it as it came from the dialect's own header, or from X-Request-ID where the dialect has none; without one the "
        "request is refused",
        "section 4 requires X-Request-ID on every request, and a payment that is sent twice must be one",
        "seals.SealProfile.request_id",
    ),
)
# fmt: on
