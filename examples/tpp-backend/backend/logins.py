"""Log in by code: show it, wait for the callback, and begin a session with a new id."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, HTTPException, Request, Response
from sqlalchemy import delete

from backend.database import logins
from backend.sessions import COOKIE, CurrentCustomer, SessionId, begin_session, end_session, new_session_id
from tppkit.callbacks.login_codes import digest_session_id
from tppkit.qr import make_picture, parse_login

WAITS = timedelta(minutes=5)  # how long a confirmed login waits for its browser

router = APIRouter()


@router.post("/login", status_code=201)
def begin(request: Request, response: Response, old: SessionId = None) -> dict[str, str | None]:
    """Make a code for this browser: the picture to scan, and digits that the customer compares with the service's app."""
    if old is not None:
        with request.app.state.engine.begin() as db:
            end_session(db, old)
    session_id = new_session_id(response)
    shown = request.app.state.callbacks.codes.make(session_id, at=datetime.now(UTC))
    picture = make_picture(parse_login(shown.text))
    return {"text": shown.text, "digits": shown.code, "svg": picture.svg(), "expires_at": shown.expires_at.isoformat()}


@router.post("/login/finish")
def finish(request: Request, response: Response, session_id: SessionId = None) -> dict[str, bool]:
    """Begin the session if the customer has confirmed; the page asks every few seconds."""
    if session_id is None:
        raise HTTPException(401, "ask for a login code first")
    taken = delete(logins).where(logins.c.session == digest_session_id(session_id)).returning(logins.c.customer_id)
    with request.app.state.engine.begin() as db:
        db.execute(delete(logins).where(logins.c.received_at <= datetime.now(UTC) - WAITS))
        customer_id = db.scalar(taken)
        if customer_id is None:
            return {"logged_in": False}
        begin_session(db, new_session_id(response), customer_id)
    return {"logged_in": True}


@router.get("/me")
def me(customer: CurrentCustomer) -> dict[str, str]:
    """Who is logged in."""
    return {"name": customer.name}


@router.post("/logout", status_code=204)
def logout(request: Request, response: Response, session_id: SessionId = None) -> None:
    """End the session."""
    if session_id is not None:
        with request.app.state.engine.begin() as db:
            end_session(db, session_id)
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True)
