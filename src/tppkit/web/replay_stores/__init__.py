"""Stores for used request ids: in memory, or in a table through SQLAlchemy. Import the one you need:

from tppkit.web.replay_stores.memory import MemoryReplayStore
from tppkit.web.replay_stores.table import TableReplayStore
"""
