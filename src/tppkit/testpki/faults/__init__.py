"""A catalogue of test certificates, chains, CRLs and OCSP responses with one fault each, and the codes that a check reports.

for fault in FAULTS.values():
    case = fault.make(pki)
"""

from tppkit.testpki.faults.catalogue import FAULTS, Fault
from tppkit.testpki.faults.sound_pki import FaultCase, SoundPki, judged_at

__all__ = ["FAULTS", "Fault", "FaultCase", "SoundPki", "judged_at"]
