"""What calls of the bank have in common."""

from __future__ import annotations

from fastapi import HTTPException, Request

from tppkit.protocol.psd2 import ApprovalLinks


def ip_address(request: Request) -> str | None:
    """The customer's IP address, which the bank asks for when the customer is present."""
    return request.client.host if request.client else None


def require_link(links: ApprovalLinks) -> str:
    """The address at which the customer approves."""
    if links.sca_redirect is None:
        raise HTTPException(502, "the bank sent no approval link")
    return links.sca_redirect.href
