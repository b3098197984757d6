"""The backend of a provider: login, accounts, payments."""
