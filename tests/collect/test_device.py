"""What an app calls, against a collector that replies as a test says: pinned claims, limits, posts that carry nothing of the device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dpproxy.collect import Device, FileRefused, OutsideSpace, Refusal
from dpproxy.collect.questions import PlainColumn, Question, RandomisedColumn, question_of
from dpproxy.collect.queue import AGAIN, CERTAIN
from dpproxy.local.claims import Binary, Claim, CountMean, Direct, Duchi, Hadamard, Hashed, Levels, Plane, Sequence, Unary
from tests.collect.device import Clock

EMOJI = ("😀", "😂", "😢")
COIN = Binary(Fraction(3, 4), Fraction(1, 4))
REGION = PlainColumn("region", ("north", "south"))


def question(claim: Claim = COIN, values: tuple[str, ...] | None = None, **other: Any) -> Question:
    columns = other.pop("columns", (RandomisedColumn("ill", claim, values),))
    settings = {"table": "answers", "per_day": 1, "memoised": False, "plain": (REGION,), "name": columns[0].name}
    return Question(**{**settings, **other, "randomised": columns})


class Collector:
    """Replies with `statuses` in turn (the last one for ever), and keeps what was sent. 0: no reply at all."""

    def __init__(self) -> None:
        self.statuses, self.bodies, self.heads = [204], [], []  # type: ignore[var-annotated]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.heads.append((self.path, {name.lower() for name in self.headers}))
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                if status:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


class App:
    """Devices of one state, with a clock that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()

    def device(self, *questions: Question, max_epsilon: float = 2, **options: Any) -> Device:
        files = []
        for number, asked in enumerate(questions or [question()]):
            files.append(self.folder / f"{number}.claim.json")
            files[-1].write_text(json.dumps(asked.document()))
        return Device(files, self.folder / "dp.sqlite", max_epsilon=max_epsilon, clock=self.clock, **options)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path)


def test_an_event_becomes_one_report_that_says_nothing_else(app: App, collector: Collector) -> None:
    device = app.device()
    assert [device.saw("ill", value, region="north") for value in (True, False, True)] == [None] * 3
    assert device.send(collector.url).taken == 0
    app.clock.next_day(2)
    device.send(collector.url)
    app.clock.next_day()
    device.send(collector.url)
    ((path, heads),) = collector.heads
    (body,) = collector.bodies
    assert path == "/v1/answers"
    assert heads <= {"host", "content-type", "content-length", "accept-encoding"}
    assert body.keys() == {"batch", "claim", "reports"}
    assert body["claim"] == question().claim
    (report,) = body["reports"]
    assert (report[0], type(report[1])) == ("north", bool)
    account = device.told()
    assert account.reports == ({"question": "ill", "day": "2024-10-04", "epsilon": Decimal("1.098613")},)
    assert float(account.forever) == pytest.approx(1.098613)


@pytest.mark.parametrize(
    ("claim", "values", "value", "form"),
    [
        (COIN, None, True, bool),
        (Direct.within(Fraction(1), 3), EMOJI, "😂", str),
        (Unary.within(Fraction(1), 3), EMOJI, "😂", str),
        (Plane.within(Fraction(1), 3, 2, 3), EMOJI, "😂", int),
        (Hashed.within(Fraction(1), 16, "seed"), None, "any", int),
        (CountMean.within(Fraction(1), 16, 64, "seed"), None, "any", str),
        (Hadamard.within(Fraction(1), 16, 64, "seed"), None, "any", int),
        (Levels.within(Fraction(1), Fraction(0), Fraction(120), 2), None, 37.5, int),
        (Sequence.within(Fraction(1), "abc", 4, 16, 64, "seed"), None, "abca", int),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_every_mechanism_makes_a_report_in_its_space(
    claim: Claim, values: tuple[str, ...] | None, value: object, form: type, app: App, collector: Collector
) -> None:
    asked = question(claim, values)
    assert question_of(json.loads(json.dumps(asked.document()))) == asked
    device = app.device(asked)
    assert device.answer("ill", value, region="south") is None
    assert device.send(collector.url).taken == 1
    report = collector.bodies[0]["reports"][0][1]
    assert type(report) is form
    assert claim.space.holds(report, asked.randomised[0].numbers)


def test_two_randomised_columns_are_one_report_whose_epsilons_add_up(app: App, collector: Collector) -> None:
    columns = (RandomisedColumn("ill", COIN), RandomisedColumn("mood", Direct.within(Fraction("0.9"), 3), EMOJI))
    asked = question(columns=columns, name="answers")
    assert asked.epsilon == 1_998_613
    device = app.device(asked)
    with pytest.raises(OutsideSpace):
        device.answer("answers", True, region="north")
    device.answer("answers", {"ill": True, "mood": "😢"}, region="north")
    device.send(collector.url)
    assert [type(part) for part in collector.bodies[0]["reports"][0]] == [str, bool, str]


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("hill", True, {"region": "north"}),
        ("ill", "yes", {"region": "north"}),
        ("ill", None, {"region": "north"}),
        ("ill", 1, {"region": "north"}),
        ("ill", True, {"region": "east"}),
        ("ill", True, {}),
        ("ill", True, {"region": "north", "who": "me"}),
    ],
)
def test_a_value_outside_its_space_costs_nothing(app: App, name: str, value: object, plain: dict[str, object]) -> None:
    device = app.device()
    for tell in (device.saw, device.answer):
        with pytest.raises(OutsideSpace):
            tell(name, value, **plain)
    assert device.told().forever == 0


def change(**entries: object) -> dict[str, object]:
    return {**question(Direct.within(Fraction(1), 3), EMOJI).document(), **entries}


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        (change(), {"max_epsilon": 0.99}, "asks for epsilon 1"),
        (change(), {"pinned": ["0" * 64]}, "not the one that the app was made with"),
        (change(table="other"), {}, "was changed"),
        (change(claim="0" * 64), {}, "was changed"),
        (
            change(randomised=[{"name": "ill", "claim": Direct.within(Fraction(1), 3).document(), "values": ["a"]}]),
            {},
            "stale list",
        ),
        (
            change(
                randomised=[
                    {"name": "ill", "claim": Duchi.within(Fraction(1), Fraction(0), Fraction(1)).document(), "values": None}
                ]
            ),
            {},
            "made elsewhere",
        ),
        (change(randomised=[{"name": "ill", "claim": {"by": "magic"}, "values": None}]), {}, "no mechanism that is known"),
        (change(randomised=[]), {}, "has a randomised column"),
        (change(per_day=0), {}, "at least one report a day"),
        (change(dpproxy=2), {}, "of version 2"),
        ({"per_day": 1}, {}, "no mechanism's file"),
        ([], {}, "no mechanism's file"),
    ],
)
def test_a_file_that_asks_too_much_or_was_changed_is_refused(
    tmp_path: Path, document: object, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(FileRefused, match=message):
        Device(tmp_path / "a.json", tmp_path / "dp.sqlite", **{"max_epsilon": 1, **options})


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(FileRefused, match="no JSON"):
        Device(tmp_path / "a.json", tmp_path / "dp.sqlite", max_epsilon=1)


@pytest.mark.parametrize(
    "url", ["http://reports.example.org", "ftp://127.0.0.1", "reports.example.org", "https://a@b", "https://a?b"]
)
def test_reports_travel_by_tls(app: App, url: str) -> None:
    device = app.device()
    with pytest.raises(ValueError, match=r"https|no address"):
        device.send(url)


@pytest.mark.parametrize(
    ("statuses", "seconds", "posts", "outcome"),
    [
        ([204], [0], 1, "taken"),
        ([409, 204], [0, AGAIN], 1, "unwanted"),
        ([429, 503, 204], [0, AGAIN, AGAIN], 3, "taken"),
        ([503, 204], [0, CERTAIN * 3], 2, "taken"),  # it surely did not arrive
        ([0, 204], [0, AGAIN], 2, "taken"),  # the same batch, which a collector counts once
        ([0, 204], [0, CERTAIN + AGAIN], 1, "later"),  # it may have arrived, and nobody knows any more
        ([302, 204], [0, AGAIN], 2, "taken"),  # nobody sends a device elsewhere
    ],
)
def test_what_becomes_of_a_post(
    app: App, collector: Collector, statuses: list[int], seconds: list[int], posts: int, outcome: str
) -> None:
    device = app.device()
    device.answer("ill", True, region="north")
    collector.statuses = statuses
    outcomes = []
    for wait in seconds:
        app.clock.now += wait
        sent = device.send(collector.url)
        outcomes += ["taken"] * sent.taken + ["later"] * sent.later + ["unwanted"] * len(sent.unwanted)
    assert (len(collector.bodies), outcomes[-1]) == (posts, outcome)
    assert len({json.dumps(body) for body in collector.bodies}) == 1
    assert len(device.told().reports) == 1


def test_a_collector_that_is_gone_loses_nothing(app: App, collector: Collector) -> None:
    device = app.device()
    device.answer("ill", True, region="north")
    collector.server.shutdown()
    collector.server.server_close()
    for _ in range(3):
        assert device.send(collector.url).later == 1
        app.clock.next_day(3)


def test_limits_are_the_apps(app: App, collector: Collector) -> None:
    device = app.device(question(), question(table="more", name="more", columns=(RandomisedColumn("more", COIN),)), total=3)
    answers = [device.answer(name, True, region="north") for name in ("ill", "more")]
    assert answers == [None, Refusal.DAY]  # by default a day is one report of the greatest epsilon
    app.clock.next_day()
    assert device.answer("more", True, region="north") is None
    app.clock.next_day()
    assert device.answer("ill", False, region="north") is Refusal.TOTAL
    device.forget()
    assert len(device.told().reports) == 2
    with pytest.raises(ValueError, match="no finite amount"):
        app.device(total=float("inf"))


def test_a_lost_state_begins_again_with_what_was_charged(app: App) -> None:
    device = app.device()
    device.answer("ill", True, region="north")
    device.close()
    (app.folder / "dp.sqlite").unlink()
    Device.begin_again(app.folder / "dp.sqlite", clock=app.clock)
    device = app.device()
    assert device.answer("ill", True, region="north") is Refusal.CLOCK
    app.clock.next_day()
    assert device.answer("ill", True, region="north") is None
    assert float(device.told().forever) == pytest.approx(2 * 1.098613)
