"""A catalogue of test certificates, chains, CRLs and OCSP responses with one fault each, and the codes that a check reports.

for fault in FAULTS.values():
    case = fault.make(pki)
"""

from tppkit.testpki.faults.catalogue import FAULTS, Fault
from tppkit.testpki.faults.valid_pki import FaultCase, ValidPki, judged_at

__all__ = ["FAULTS", "Fault", "FaultCase", "ValidPki", "judged_at"]
