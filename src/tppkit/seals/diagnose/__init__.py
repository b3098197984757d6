"""Why a sealed request does not verify, proven from the request itself.

diagnosis = diagnose_request(message, certificates=[qseal, qwac])
"""

from tppkit.seals.diagnose.diagnosing import diagnose_request
from tppkit.seals.diagnose.mistake import Mistake, Part
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome, visible
from tppkit.seals.diagnose.table import ALL_MISTAKES

__all__ = ["ALL_MISTAKES", "Cause", "Diagnosis", "Mistake", "Outcome", "Part", "diagnose_request", "visible"]
