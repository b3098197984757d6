"""The choices that the documents leave open: what is open, what tppkit does, why, and how to change it.

Code that depends on a row names it in a comment; a test checks that each named row exists.
"""

from tppkit.protocol.assumptions.accounts import ACCOUNTS
from tppkit.protocol.assumptions.dialects import DIALECTS
from tppkit.protocol.assumptions.gateway import GATEWAY
from tppkit.protocol.assumptions.legacy import LEGACY
from tppkit.protocol.assumptions.payments import PAYMENTS
from tppkit.protocol.assumptions.row import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (*PAYMENTS, *ACCOUNTS, *LEGACY, *GATEWAY, *DIALECTS)

__all__ = ["ASSUMPTIONS", "Assumption"]
