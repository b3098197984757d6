"""Receive what services send: callbacks of the legacy interface, webhooks of the payment gateway.

`gate.py` judges and answers requests, for both; `callbacks.py` and `webhooks.py` say what is received; `middleware.py` puts a gate before
an application; `routes.py` verifies callbacks in routes of the application.
"""
