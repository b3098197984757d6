"""Sessions of browsers: a random id in a cookie, its digest in the database, and no request of another page."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import Cookie, Depends, HTTPException, Request, Response
from sqlalchemy import Connection, delete, insert, select

from backend.database import customers, sessions
from tppkit.callbacks.login_codes import MIN_SESSION_ID, digest_session_id

COOKIE = "__Host-session"
LIFETIME = timedelta(hours=1)

SessionId = Annotated[str | None, Cookie(alias=COOKIE, min_length=MIN_SESSION_ID, max_length=100)]


class Customer(NamedTuple):
    """Who is logged in."""

    id: int
    name: str


def protect(request: Request, response: Response) -> None:
    """Refuse what changes something unless our own page sends it: browsers add Origin to each such request."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.method not in ("GET", "HEAD") and request.headers.get("Origin") != request.app.state.settings.public_url:
        raise HTTPException(403, "this request was not sent by our own page")


def current_customer(request: Request, session_id: SessionId = None) -> Customer:
    """Return the customer of the session in the cookie."""
    if session_id is not None:
        valid = (sessions.c.session == digest_session_id(session_id), sessions.c.expires_at > datetime.now(UTC))
        query = select(customers.c.id, customers.c.name).join(sessions).where(*valid)
        with request.app.state.engine.connect() as db:
            found = db.execute(query).first()
        if found is not None:
            return Customer(*found)
    raise HTTPException(401, "log in first")


CurrentCustomer = Annotated[Customer, Depends(current_customer)]


def new_session_id(response: Response) -> str:
    """Give the browser a new session id. The prefix `__Host-` binds the cookie to this host and to HTTPS."""
    session_id = secrets.token_urlsafe(32)
    response.set_cookie(COOKIE, session_id, path="/", secure=True, httponly=True, samesite="lax")
    return session_id


def begin_session(db: Connection, session_id: str, customer_id: int) -> None:
    """Store a session, and delete those that have expired."""
    now = datetime.now(UTC)
    db.execute(delete(sessions).where(sessions.c.expires_at <= now))
    row = {"session": digest_session_id(session_id), "customer_id": customer_id, "expires_at": now + LIFETIME}
    db.execute(insert(sessions), row)


def end_session(db: Connection, session_id: str) -> None:
    """Delete a session."""
    db.execute(delete(sessions).where(sessions.c.session == digest_session_id(session_id)))
