"""The bank behind the interfaces: customers, accounts, and one ledger."""
