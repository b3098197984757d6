"""Every mistake that is known here, in the order of the reference page."""

from __future__ import annotations

from tppkit.seals.diagnose.bodies import BODY_MISTAKES
from tppkit.seals.diagnose.digests import DIGEST_MISTAKES
from tppkit.seals.diagnose.form import FORM_MISTAKES
from tppkit.seals.diagnose.judging import COVERED_TOO_MUCH, DIALECT, UNCOVERED
from tppkit.seals.diagnose.jws_form import JWS_MISTAKES
from tppkit.seals.diagnose.mistake import Mistake
from tppkit.seals.diagnose.search import MISTAKES
from tppkit.seals.diagnose.signing import SIGNING_MISTAKES

ALL_MISTAKES: tuple[Mistake, ...] = (
    *BODY_MISTAKES, *DIGEST_MISTAKES, *MISTAKES, *SIGNING_MISTAKES, *FORM_MISTAKES, *JWS_MISTAKES, UNCOVERED, COVERED_TOO_MUCH, DIALECT,
)  # fmt: skip
