"""Receive what services send: callbacks of the legacy interface, webhooks of the payment gateway.

`gate.py` judges and answers requests, for both, and puts a gate before an application; `callbacks.py` and `webhooks.py` have the
two kinds of gate; `routes.py` verifies callbacks in routes of the application.
"""
