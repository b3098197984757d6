"""Explain why a sealed request does not verify, with proof from the request itself.

diagnosis = diagnose_request(message, certificates=[qseal, qwac])
"""

from tppkit.seals.diagnose.bodies import BODY_MISTAKES
from tppkit.seals.diagnose.diagnosis import diagnose_request
from tppkit.seals.diagnose.mistakes import MISTAKES, Mistake, Part
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome, visible
from tppkit.seals.diagnose.strings import STRING_MISTAKES

ALL_MISTAKES: tuple[Mistake, ...] = (*BODY_MISTAKES, *STRING_MISTAKES, *MISTAKES.values())

__all__ = ["ALL_MISTAKES", "Cause", "Diagnosis", "Mistake", "Outcome", "Part", "diagnose_request", "visible"]
