"""Explain why a sealed request does not verify, with proof from the request itself.

diagnosis = diagnose_request(message, certificates=[qseal, qwac])
"""

from tppkit.seals.diagnose.diagnosis import diagnose_request
from tppkit.seals.diagnose.mistakes import Part
from tppkit.seals.diagnose.report import Cause, Diagnosis, DiagnosisOutcome

__all__ = ["Cause", "Diagnosis", "DiagnosisOutcome", "Part", "diagnose_request"]
