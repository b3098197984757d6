"""The one way to a database. SQLAlchemy is the extra `sqlalchemy`, so import the module you need."""
