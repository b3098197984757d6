"""A customer of a merchant at the hosted pages of the gateway, without a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping

import httpx
from merchant import Merchant
from test_psd2_pages import Page


class Customer:
    """A browser without script at one page; `cards` of the merchant searches every answer.

    Attributes:
        at: the address of the page.
        answer: the latest one.
    """

    def __init__(self, merchant: Merchant, url: str) -> None:
        self.merchant, self.at = merchant, url
        self.cookies = httpx.Cookies()
        self.show()

    def show(self, query: str = "", **headers: str) -> Page:
        """Load the page, also where it leads to another page of the sandbox."""
        with httpx.Client(trust_env=False, follow_redirects=True, cookies=self.cookies) as http:
            self.answer = self.merchant.cards.keep(http.get(self.at + query, headers=headers))
            self.cookies = http.cookies
        self.at = str(self.answer.url).partition("?")[0]
        return self.page

    @property
    def page(self) -> Page:
        return Page(self.answer.text)

    @property
    def heading(self) -> str:
        found = re.search("<h1>(.*?)</h1>", self.answer.text)
        return found[1] if found else ""

    def fields(self) -> dict[str, str]:
        """The hidden fields of the form."""
        return dict(re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', self.answer.text))

    def send(self, fields: Mapping[str, str], **headers: str) -> httpx.Response:
        return self.merchant.cards.keep(httpx.post(self.at, data=fields, headers=headers, trust_env=False))

    def press(self, action: str, **fields: str) -> str:
        """Send the form of the page; return where it leads. A page of the sandbox is loaded, and its heading returned."""
        return self.follow(self.send({**self.fields(), "action": action, **fields}))

    def follow(self, answer: httpx.Response) -> str:
        if answer.status_code != 303:
            self.answer = answer
            return self.heading
        self.cookies.update(answer.cookies)
        location = answer.headers["location"]
        if not location.startswith("/"):
            return str(location)
        self.at, mark, query = str(httpx.URL(self.at).join(location)).partition("?")
        self.show(mark + query)
        return self.heading

    def card(self, pan: str | None = None, **fields: str) -> dict[str, str]:
        number = self.merchant.cards.pan(pan) if pan else self.merchant.pan
        return {"number": number, "expiry": "12/39", "cvc": self.merchant.cvc, **fields}

    def pay(self, pan: str | None = None, **fields: str) -> str:
        return self.press("pay", **self.card(pan, **fields))
