"""The operators' pages as a browser without JavaScript has them: who gets in, what every reply carries, what forms do."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from dpproxy.console.pages import LINKS
from dpproxy.console.tokens import SHARED, WRONG, Entrance, digest
from dpproxy.console.web import HERE, LARGEST, application
from dpproxy.operations.requests import CancelSession, GrantBudget, PauseRole, Reload, ResumeRole
from tests.worlds.told_source import EVIL, SAFE, ToldSource
from tests.worlds.visitor import Visitor, secret_in

TOKEN, EVES = "a token for operators", "a token of eve alone"
PAGES = [*(path for path, _ in LINKS), "/exposure?dataset=shop&role=analyst"]


def visitor(source: ToldSource, secure: bool = False) -> Visitor:
    return Visitor(application(source, Entrance(lambda: {SHARED: digest(TOKEN), "eve": digest(EVES)}), secure=secure))


async def logged_in(source: ToldSource) -> Visitor:
    found = visitor(source)
    assert (await found.submit("/login", "/login", token=TOKEN)).status == 303
    return found


class Checked(HTMLParser):
    """Reads a page as a browser does: which elements it has, and what each needs for its policy of content."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.forms: list[tuple[str, str]] = []
        self.secrets = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert "style" not in given, "a style that the policy of content forbids"
        assert not [name for name in given if name.startswith("on")], "a handler that the policy of content forbids"
        assert tag != "style"
        assert tag != "script" or "src" in given or given.get("type") == "application/json", "a script within the page"
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag == "form":
            self.forms.append((given.get("method") or "", given.get("action") or ""))
        self.secrets += tag == "input" and given.get("name") == "form"


async def test_nothing_is_shown_to_strangers() -> None:
    stranger = visitor(ToldSource())
    for path in PAGES:
        reply = await stranger.get(path)
        assert (reply.status, reply.headers["location"]) == (303, "/login"), path
        assert "analyst" not in reply.text
    for path in ("/actions/reload", "/explain", "/logout"):
        assert (await stranger.post(path, {"form": "guessed"})).headers["location"] == "/login"


@pytest.mark.parametrize("path", PAGES)
async def test_pages_are_whole_and_escape_what_they_tell(path: str) -> None:
    reply = await (await logged_in(ToldSource())).get(path)
    assert reply.status == 200
    assert EVIL not in reply.text
    assert SAFE in reply.text, "the page has something to escape"
    checked = Checked(reply.text)
    assert all(address.startswith(("/", "#")) and not address.startswith("//") for address in checked.addresses)
    assert checked.secrets == len(checked.forms)
    assert {method for method, _ in checked.forms} == {"post"}
    assert "<h1" in reply.text


async def test_every_reply_carries_what_protects_it() -> None:
    found = await logged_in(ToldSource())
    for path in ("/", "/login", "/static/console.css", "/nowhere"):
        headers = (await found.get(path)).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("secure", [False, True])
async def test_a_cookie_is_for_this_site_alone(secure: bool) -> None:
    found = visitor(ToldSource(), secure)
    (text,) = (await found.submit("/login", "/login", token=TOKEN)).cookies
    assert "HttpOnly" in text
    assert "samesite=strict" in text.lower()
    assert ("Secure" in text) is secure
    assert TOKEN not in text


async def test_wrong_tokens_are_few_and_noted() -> None:
    source = ToldSource()
    found = visitor(source)
    for _ in range(WRONG):
        assert (await found.submit("/login", "/login", token="guess")).status == 403
    assert (await found.submit("/login", "/login", token=TOKEN)).status == 429
    elsewhere = Visitor(found.app, "10.1.2.3")
    assert (await elsewhere.submit("/login", "/login", token=TOKEN)).status == 303
    assert source.notes == [
        *[("console login", "console from 127.0.0.1", "wrong token")] * WRONG,
        ("console login", "console from 10.1.2.3", "done"),
    ]


async def test_a_login_form_is_of_the_visitor_who_loaded_it() -> None:
    found = visitor(ToldSource())
    taken = secret_in((await visitor(ToldSource()).get("/login")).text)
    await found.get("/login")
    assert (await found.post("/login", {"form": taken, "token": TOKEN})).status == 403
    assert (await visitor(ToldSource()).post("/login", {"token": TOKEN})).status == 403


async def test_forms_of_others_do_nothing() -> None:
    source = ToldSource()
    found = await logged_in(source)
    for secret in ("", "guessed", secret_in((await (await logged_in(source)).get("/steer")).text)):
        assert (await found.post("/actions/reload", {"form": secret})).status == 403
        assert (await found.post("/explain", {"form": secret, "statement": "SELECT 1"})).status == 403
    assert source.done == []


async def test_actions_are_the_requests_of_dpproxy_admin() -> None:
    source = ToldSource()
    found = await logged_in(source)
    for action, fields in (
        ("pause", {"role": "shop/analyst", "reason": "a lost laptop"}),
        ("resume", {"role": "shop/a%2Fb"}),
        ("cancel", {"session": "7", "end": "yes"}),
        ("grant", {"account": "shop/role/analyst", "epsilon": "0.5", "reason": "audit"}),
        ("reload", {}),
    ):
        reply = await found.submit("/steer", f"/actions/{action}", back="/sessions", **fields)
        assert (reply.status, reply.headers["location"]) == (303, "/sessions")
        assert 'role="status"' in (await found.get("/sessions")).text
    assert [request for request, _ in source.done] == [
        PauseRole("analyst", "a lost laptop", "shop"),
        ResumeRole("a/b", "", "shop"),
        CancelSession(7, True),
        GrantBudget("this ledger", "shop", "role", "analyst", 500_000, 0, "audit"),
        Reload(),
    ]
    assert {by for _, by in source.done} == {"console from 127.0.0.1"}
    assert (await found.submit("/steer", "/actions/drain")).status == 404


async def test_who_has_a_token_of_their_own_is_named() -> None:
    source = ToldSource()
    found = visitor(source)
    assert (await found.submit("/login", "/login", token=EVES)).status == 303
    assert ">eve<" in (await found.get("/")).text
    await found.submit("/steer", "/actions/reload")
    assert source.notes == [("console login", "eve, console from 127.0.0.1", "done")]
    assert [by for _, by in source.done] == ["eve, console from 127.0.0.1"]


async def test_what_may_be_asked_again_is_listed() -> None:
    text = (await (await logged_in(ToldSource())).get("/answers")).text
    listed = text.partition("Free to ask again</h2>")[2]
    for told in ("feed", "0.500", "2.0 h", "3.0 d", "as long as the data stay", f"count ± 30 {SAFE}"):
        assert told in listed, told


async def test_what_cannot_be_done_is_said_and_leads_nowhere_else() -> None:
    source = ToldSource(refuse=f"there is no role {EVIL}")
    found = await logged_in(source)
    reply = await found.submit("/steer", "/actions/reload", back="//example.com/")
    assert reply.headers["location"] == "/steer"
    page = (await found.get("/steer")).text
    assert "there is no role &lt;script&gt;" in page
    assert "there is no role" not in (await found.get("/steer")).text, "said once"


async def test_a_statement_is_explained() -> None:
    found = await logged_in(ToldSource())
    page = await found.submit("/explain", "/explain", role="shop/analyst", statement="SELECT 'wombat'", epsilon="0.5")
    assert (page.status, page.text.count("wombat")) == (200, 2), "in the box, and in what was explained"
    for told in ("0.500", "count(*)", "± 30", "/ rows", "± 12 ranks", "SELECT &lt;script&gt;", 'class="chart"'):
        assert told in page.text, told
    assert EVIL not in page.text
    refused = await found.submit("/explain", "/explain", role="shop/analyst", statement="refuse")
    assert "0A000" in refused.text
    assert "ask for less" in refused.text


async def test_pages_need_no_script() -> None:
    """All that a script draws is there without it, in the page itself."""
    page = (await (await logged_in(ToldSource())).get("/budgets")).text
    assert page.count("<svg") == page.count('class="chart"') == 2
    assert "<polyline" in page
    assert "0.500" in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


async def test_what_is_no_form_is_not_taken() -> None:
    found = await logged_in(ToldSource())
    assert (await found.post("/actions/reload", {}, kind="application/json")).status == 415
    assert (await found.post("/actions/reload", {"form": "x" * LARGEST})).status == 413
    assert (await found.get("/static/../templates/base.html")).status == 404


async def test_a_proxy_that_does_not_answer_is_said() -> None:
    source = ToldSource()
    found = await logged_in(source)
    source.silent = True
    reply = await found.get("/")
    assert (reply.status, "does not answer" in reply.text) == (503, True)
    assert (await found.get("/exposure?dataset=shop&role=nobody")).status == 404
    assert (await found.get("/exposure")).status == 404


async def test_whoever_logs_out_is_out() -> None:
    found = await logged_in(ToldSource())
    kept = dict(found.cookies)
    assert (await found.submit("/steer", "/logout")).status == 303
    found.cookies = kept
    assert (await found.get("/")).status == 303


def test_what_others_made_comes_with_its_licence() -> None:
    assert "MIT License" in (HERE / "static" / "uPlot.LICENSE").read_text()
    assert b"uPlot" in (HERE / "static" / "uPlot.iife.min.js").read_bytes()[:300]
