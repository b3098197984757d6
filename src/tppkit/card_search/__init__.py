"""Search files, folders, databases and archives for card numbers.

from tppkit.card_search.files import search_path
from tppkit.card_search.forms import AnyCard

for found in search_path(Path("logs"), AnyCard()):
    print(found)  # a Place with its hits, or a Skipped with the reason
"""
