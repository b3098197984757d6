"""A catalogue of test certificates, chains and answers with one fault each, and the codes that a check gives for it.

for fault in FAULTS.values():
    case = fault.make(Bench(pki, fault.name))
"""

# Each module enters its functions into the catalogue when it is imported.
from tppkit.testpki.faults import chains, extensions, revocations, statements, subjects  # noqa: F401
from tppkit.testpki.faults.case import Bench, Fault, FaultCase, judged_at
from tppkit.testpki.faults.registry import FAULTS

__all__ = ["FAULTS", "Bench", "Fault", "FaultCase", "judged_at"]
