"""Search files, folders, databases and archives for card numbers.

for found in search_path(Path("logs"), AnyCard()):
    print(found)  # a Place with its hits, or a Skipped with the reason
"""

from tppkit.card_search.files import Place, Skipped, SkipReason, search_path, searched
from tppkit.card_search.forms import AnyCard, CardForms, Forms, Hit, Secret

__all__ = [
    "AnyCard",
    "CardForms",
    "Forms",
    "Hit",
    "Place",
    "Secret",
    "SkipReason",
    "Skipped",
    "search_path",
    "searched",
]
