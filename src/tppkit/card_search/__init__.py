"""Search files, folders, databases and archives for card numbers.

for found in search_path(Path("logs"), AnyCard()):
    print(found)  # a Place with its hits, or a Skipped with the reason
"""

from tppkit.card_search.files import Place, Skipped, SkipReason, distinct, masked, search_path
from tppkit.card_search.forms import CODE, AnyCard, CardForms, Forms, Hit, Secret

__all__ = [
    "CODE",
    "AnyCard",
    "CardForms",
    "Forms",
    "Hit",
    "Place",
    "Secret",
    "SkipReason",
    "Skipped",
    "distinct",
    "masked",
    "search_path",
]
