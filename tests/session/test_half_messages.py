"""Who begins a message and does not go on is ended; who goes on, however the pieces come, has the time that a slow line takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpproxy.session.inflow import PAUSE, SLOWEST, STOPPED, Half, HalfMessages

MB = 1 << 20


@dataclass(eq=False)
class Session:
    half: Half | None = None
    ended: list[tuple[str, str]] = field(default_factory=list)

    def fatal(self, sqlstate: str, text: str) -> None:
        self.ended.append((sqlstate, text))


def lasted(session: Session, pieces: dict[float, Half | None], until: float = 1000.0) -> float | None:
    """Look each second while the session sends what it sends at these moments; return when it was ended."""
    watch, now = HalfMessages[Session](), 0.0
    while now < until:
        session.half = pieces.get(now, session.half)
        watch.look([session], now)
        if session.ended:
            return now
        now += 1.0
    return None


def test_who_stops_is_ended_once_the_pause_is_over() -> None:
    session = Session()
    assert lasted(session, {5.0: Half(3, 100, 16 * MB)}) == 5.0 + PAUSE
    assert session.ended == [("57P05", STOPPED)]


def test_a_byte_now_and_then_does_not_help_for_long() -> None:
    drip: dict[float, Half | None] = {29.0 * i: Half(3, 5 + i, 1000) for i in range(40)}
    assert lasted(Session(), drip) == PAUSE + 1.0
    drip = {29.0 * i: Half(3, 5 + i, 16 * MB) for i in range(40)}
    assert lasted(Session(), drip) == PAUSE + 16 * MB / SLOWEST


def test_a_slow_line_has_its_time() -> None:
    steps: dict[float, Half | None] = {float(i): Half(0, 5 + i * SLOWEST, 16 * MB) for i in range(256)}
    assert lasted(Session(), {**steps, 256.0: None}) is None


def test_one_message_after_the_other_is_no_single_one() -> None:
    steps: dict[float, Half | None] = {25.0 * i: Half(i, 10, 1000) for i in range(40)}
    assert lasted(Session(), steps) is None


def test_time_in_which_the_client_is_not_read_does_not_count() -> None:
    half = Half(0, 10, 1000)
    steps: dict[float, Half | None] = {0.0: half, 20.0: None, 500.0: half}
    assert lasted(Session(), steps) == 500.0 + PAUSE


def test_whoever_has_gone_is_forgotten() -> None:
    watch, session = HalfMessages[Session](), Session(Half(0, 10, 1000))
    watch.look([session], 0.0)
    watch.look([], PAUSE)
    watch.look([session], PAUSE + 1)
    assert session.ended == []
