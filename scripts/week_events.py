"""What happens in the simulated week, and where each event has to be told.

Knows: the machine room (`week_world`). Must not know: how what is told is looked for or written down. An event does something
to the proxy or to what it needs, returns what analysts saw of it, and names for each place a pattern that a line there must
hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from week_load import Load
from week_world import World, fill

COUNT: Final = "SELECT region, count(*) FROM people GROUP BY 1 ORDER BY 1"
TOWNS: Final = "SELECT town, count(*) FROM patients GROUP BY 1 ORDER BY 1"
SLOW: Final = "SELECT repeat('x', 20000) FROM generate_series(1, 4) AS g, LATERAL pg_sleep(CASE g WHEN 4 THEN 300 ELSE 0 END)"
"""Of the facade alone: it runs until it is cancelled."""
_years = itertools.count(1930)


def new() -> str:
    """A question that nobody has asked."""
    return f"SELECT count(*) FROM patients WHERE born > {next(_years)}"


@dataclass(frozen=True)
class Told:
    """Names a place that has to tell: `page` of the console; `client` is what analysts saw. `gone`: it must be gone."""

    place: str
    pattern: str
    page: str = "/"
    gone: bool = False


@dataclass(frozen=True)
class Event:
    """`day`: Monday is 0; `hour`: of the day. `disk`: it needs a small disk. `picture`: a page of the console to be shown."""

    title: str
    day: int
    hour: float
    text: str
    act: Callable[[World], Sequence[str]]
    told: tuple[Told, ...]
    disk: bool = False
    picture: str = ""


# what is done


def upgrade(world: World) -> Sequence[str]:
    world.start()
    return [*world.ask("ada", COUNT), *world.ask("eve", "SELECT scope, spent_epsilon, limit_epsilon FROM dpproxy.budget")]


def load(world: World) -> Sequence[str]:
    return Load(world).run(each=6)


def good_policy(world: World) -> Sequence[str]:
    """`--watch` sees it. A session that is idle under the old policy is ended."""
    with world.connect("ben") as idle:
        idle.execute("SELECT 1")
        replace(world, "range: [1920, 2020]", "range: [1900, 2020]")
        world.awaited("log", r"policy reloaded: .*clinic\.yaml")
        return world.seen(lambda: idle.execute("SELECT 1"))


def bad_policy(world: World) -> Sequence[str]:
    replace(world, "epsilon: 20", "epsilom: 20")
    world.awaited("log", "policy not reloaded")
    return world.ask("ben", TOWNS)


def mended_policy(world: World) -> Sequence[str]:
    replace(world, "epsilom: 20", "epsilon: 20")
    world.awaited("ready", '"reload_failed": false')
    return world.ask("ben", TOWNS)


def replace(world: World, before: str, after: str) -> None:
    """As an editor writes a file: another in its place."""
    path = world.policy("clinic")
    other = path.with_suffix(".new")
    text = path.read_text()
    assert before in text
    other.write_text(text.replace(before, after))
    other.replace(path)


def wrong_logins(world: World) -> Sequence[str]:
    return [line for password in ("guess", "another guess") for line in world.seen(lambda p=password: world.connect("ben", p))]


def drained(world: World) -> Sequence[str]:
    """A statement runs that does not end by itself."""
    world.long_statement("eve", SLOW)
    world.tell_to_stop()
    world.awaited("ready", '"stopping": true')
    return world.ask("ben", TOWNS)


def ended_and_started(world: World) -> Sequence[str]:
    """A second signal ends the patience."""
    world.tell_to_stop()
    seen = [f"eve's statement: {world.outcome()}", f"exit code {world.stopped()}"]
    world.start()
    return [*seen, *world.ask("ben", TOWNS)]


def killed(world: World) -> Sequence[str]:
    work = Load(world)
    work.begin()
    world.kill()
    seen = work.end()
    world.start()
    return [*seen, *world.ask("ben", TOWNS)]


def full_disk(world: World) -> Sequence[str]:
    """What is being written when it becomes full has the reserve; from then on nothing is charged."""
    world.ask("ben", TOWNS)
    world.spoiler = fill(world.state)
    seen = world.ask("ben", new())
    fill(world.state)
    return [*seen, *world.ask("ben", new()), *world.ask("ben", TOWNS)]


def paused_on_a_full_disk(world: World) -> Sequence[str]:
    return world.seen(lambda: world.admin("pause", "intern", "--reason", "a lost laptop"))


def room_again(world: World) -> Sequence[str]:
    assert world.spoiler is not None
    world.spoiler.unlink()
    return world.ask("ben", new())


def lost_backend(world: World) -> Sequence[str]:
    world.server.wait(world.server.server.stop())
    return [*world.ask("ben", new()), *world.ask("ben", TOWNS)]


def backend_again(world: World) -> Sequence[str]:
    world.server.wait(world.server.server.start())
    return world.ask("ben", new())


def budget_ends(world: World) -> Sequence[str]:
    return world.ask("ivy", new(), new(), new())


def granted(world: World) -> Sequence[str]:
    words = ("--role", "intern", "--epsilon", "0.5", "--reason", "the report of Friday")
    world.admin("budget", "grant", str(world.policy("clinic")), *words)
    return world.ask("ivy", new())


def paused(world: World) -> Sequence[str]:
    world.admin("pause", "planner", "--reason", "a lost laptop")
    return world.ask("ben", TOWNS)


def resumed(world: World) -> Sequence[str]:
    world.admin("resume", "planner", "--reason", "found")
    return world.ask("ben", TOWNS)


def wrong_clock(world: World) -> Sequence[str]:
    world.set_clock(3 * 86400)
    return world.ask("ben", new())


def right_clock(world: World) -> Sequence[str]:
    world.set_clock(0)
    return world.ask("ben", new())


def new_week(world: World) -> Sequence[str]:
    return [*world.ask("ben", new()), *world.ask("ivy", new())]


def stopped(world: World) -> Sequence[str]:
    world.admin("drain")
    return [f"exit code {world.stopped()}"]


# the week

EVENTS: Final = (
    Event(
        "The upgrade",
        0,
        8,
        "An earlier version left the state folder; a second policy is served from now on. Budgets are where they were.",
        upgrade,
        (
            Told("client", r"^2 rows"),
            Told("log", r"statement: verdict=(answered|reused), dataset=town"),
            Told("metrics", r'dpproxy_budget_epsilon_lifetime\{dataset="town",name="curious",scope="role"\} 1\.0'),
            Told("ready", r'^200 .*"ledger": true'),
            Told("status", r'"name": "clinic"'),
            Told("console", r"role curious of town"),
            Told("audit", r'"action": "start".*"version"'),
        ),
    ),
    Event(
        "A morning's load",
        0,
        9,
        "Four analysts of four roles work at the same time: questions, repeats, and what is refused.",
        load,
        (
            Told("client", r"answered|reused"),
            Told("log", r"statement: verdict=refused.*reason_class=rights"),
            Told("metrics", r'dpproxy_statements_total\{dataset="clinic",process="0",role="planner",verdict="reused"\}'),
            Told("status", r'accounts: .*"name": "planner".*"charges": [1-9]'),
            Told("console", r"\| (ada|eve|ben|ivy) \| [0-9a-f]{16} \| reused"),
            Told("console", r"rights \| 42501", "/refusals"),
            Told("console", r"clinic \| planner \| [0-9a-f]{16} \| \d+ \| 0\.500", "/answers"),
        ),
        picture="/answers",
    ),
    Event(
        "A policy is changed",
        1,
        10,
        "The file is written anew, and `--watch` sees it. Sessions under the old one are ended when they are idle.",
        good_policy,
        (
            Told("client", r"57P01"),
            Told("log", r"info: policy reloaded: .*clinic\.yaml"),
            Told("metrics", r'dpproxy_policy_reload_failed\{dataset="clinic",process="0"\} 0\.0'),
            Told("ready", r'^200 .*"reload_failed": false'),
            Told("console", r"clinic", "/policies"),
        ),
    ),
    Event(
        "A policy is changed wrongly",
        1,
        11,
        "A key is mistyped. The policy before is served.",
        bad_policy,
        (
            Told("client", r"^3 rows"),
            Told("log", r"error: policy not reloaded: .*epsilom"),
            Told("metrics", r'dpproxy_policy_reload_failed\{dataset="clinic",process="0"\} 1\.0'),
            Told("ready", r'^200 .*"reload_failed": true'),
            Told("status", r'datasets: .*"problem": "[^"]*epsilom'),
            Told("console", r"The policy of clinic was not read again: .*epsilom"),
        ),
    ),
    Event(
        "The policy is mended",
        1,
        11.2,
        "Nothing but the file has to be done.",
        mended_policy,
        (
            Told("client", r"^3 rows"),
            Told("log", r"info: policy (reloaded|unchanged): .*clinic\.yaml"),
            Told("metrics", r'dpproxy_policy_reload_failed\{dataset="clinic",process="0"\} 0\.0'),
            Told("console", r"was not read again", gone=True),
        ),
    ),
    Event(
        "Somebody guesses a password",
        1,
        15,
        "Of a user that exists.",
        wrong_logins,
        (
            Told("client", r"password authentication failed"),
            Told("log", r"warning: login failed: (?=.*user=ben)(?=.*address=127\.0\.0\.1)"),
            Told("metrics", r'dpproxy_logins_total\{dataset="clinic",outcome="password",process="0"\} 2\.0'),
        ),
    ),
    Event(
        "It is told to stop, and a statement runs",
        2,
        7,
        "SIGTERM. Nobody new is let in; the statement has `--drain` seconds. Probes and operators are answered.",
        drained,
        (
            Told("client", r"no connection"),
            Told("ready", r'^503 .*"stopping": true'),
            Told("status", r"stopping: true"),
            Told("console", r"The proxy is stopping"),
            Told("metrics", r'dpproxy_sessions\{dataset="town",process="0",role="curious",state="statement"\} 1\.0'),
        ),
    ),
    Event(
        "It ends, and is started again",
        2,
        7.1,
        "A second signal ends the patience. The budget and stored answers are where they were.",
        ended_and_started,
        (
            Told("client", r"^eve's statement: (57P01|lost)"),
            Told("client", r"^exit code 0"),
            Told("client", r"NOTICE: reused|NOTICE: charged"),
            Told("audit", r'"action": "stop"'),
            Told("log", r"the run before was not stopped", gone=True),
            Told("ready", r'^200 .*"stopping": false'),
        ),
    ),
    Event(
        "It is killed",
        2,
        14,
        "`kill -9` in the middle of a load, then a start. What was charged stays charged.",
        killed,
        (
            Told("client", r"lost|answered"),
            Told("log", r"warning: the run before was not stopped"),
            Told("status", r'accounts: .*"name": "planner".*"charges": [1-9]'),
            Told("ready", r'^200 .*"ledger": true'),
            Told("console", r"Everything works|To look after"),
        ),
    ),
    Event(
        "The disk is full",
        3,
        3,
        "Somebody else has filled the disk of the state folder. What is being written has the ledger's reserve; from then on "
        "nothing is charged, and stored answers are told.",
        full_disk,
        (
            Told("client", r"the disk of the ledger is full.*53100"),
            Told("client", r"NOTICE: reused"),
            Told("log", r"error: nothing is charged: dataset=clinic, text=the disk is full"),
            Told("log", r"statement: verdict=refused.*reason_class=disk"),
            Told("metrics", r'dpproxy_part_up\{part="ledger",process="0",subject="clinic"\} 0\.0'),
            Told("metrics", r'dpproxy_refusals_total\{class="disk",code="53100",dataset="clinic",process="0",role="planner"\}'),
            Told("ready", r'^503 .*"ledger": false'),
            Told("status", r'"part": "ledger", "subject": "clinic", "works": false.*the disk is full'),
            Told("console", r"The ledger of clinic does not work: the disk is full"),
        ),
        disk=True,
        picture="/",
    ),
    Event(
        "An operator acts on a full disk",
        3,
        3.1,
        "A role is to be paused, which has to be written down. It says what is the matter.",
        paused_on_a_full_disk,
        (Told("client", r"No space left on device"), Told("log", r"internal", gone=True)),
        disk=True,
    ),
    Event(
        "There is room again",
        3,
        4,
        "Nothing but the disk has to be seen to.",
        room_again,
        (
            Told("client", r"NOTICE: charged"),
            Told("metrics", r'dpproxy_part_up\{part="ledger",process="0",subject="clinic"\} 1\.0'),
            Told("ready", r'^200 .*"ledger": true'),
            Told("console", r"The ledger of clinic does not work", gone=True),
        ),
        disk=True,
    ),
    Event(
        "The backend is lost",
        3,
        12,
        "The PostgreSQL that holds the clinic's data is stopped. The other dataset is served on.",
        lost_backend,
        (
            Told("client", r"the data backend cannot be reached.*57P03"),
            Told("client", r"NOTICE: reused"),
            Told("log", r"error: incident: .*BackendError"),
            Told("log", r"statement: verdict=refused.*reason_class=unavailable"),
            Told("metrics", r'dpproxy_part_up\{part="backend",process="0",subject="clinic"\} 0\.0'),
            Told("metrics", r'dpproxy_part_up\{part="backend",process="0",subject="town"\} 1\.0'),
            Told("ready", r'^503 .*"backend": false'),
            Told("status", r'"part": "backend", "subject": "clinic", "works": false'),
            Told("console", r"The backend of clinic does not work"),
        ),
    ),
    Event(
        "The backend is back",
        3,
        13,
        "No restart is needed.",
        backend_again,
        (
            Told("client", r"NOTICE: charged"),
            Told("metrics", r'dpproxy_part_up\{part="backend",process="0",subject="clinic"\} 1\.0'),
            Told("ready", r'^200 .*"backend": true'),
            Told("console", r"The backend of clinic does not work", gone=True),
        ),
    ),
    Event(
        "A budget ends",
        4,
        9,
        "The intern has epsilon 1 a day, and asks three questions of a half.",
        budget_ends,
        (
            Told("client", r"NOTICE: .*90 % of the budget of role intern is spent"),
            Told("client", r"the privacy budget of your role does not cover this statement.*\(53400\)"),
            Told("log", r"warning: budget level reached: dataset=clinic, scope=role, name=intern, percent=90"),
            Told("log", r"warning: statement: verdict=refused.*reason_class=budget"),
            Told("metrics", r'dpproxy_budget_warning_percent\{dataset="clinic",name="intern",scope="role"\} 90\.0'),
            Told("status", r'accounts: .*"name": "intern".*"left_epsilon": 0'),
            Told("console", r"All of the budget of role intern \(clinic\) is spent"),
            Told("console", r"role intern of clinic 0\.000|^0\.000 ε left of 1\.000 a day"),
        ),
        picture="/budgets",
    ),
    Event(
        "It is given more",
        4,
        9.5,
        "`dpproxy admin budget grant`, with a reason that stays in the ledger.",
        granted,
        (
            Told("client", r"NOTICE: charged epsilon 0\.5"),
            Told("log", r"warning: operator: action=grant, .*intern"),
            Told("metrics", r'dpproxy_budget_epsilon_limit\{dataset="clinic",name="intern",scope="role"\} 1\.5'),
            Told("audit", r'"action": "grant".*the report of Friday'),
            Told("console", r"grant .*the report of Friday", "/steer"),
        ),
    ),
    Event(
        "A role is paused",
        4,
        16,
        "`dpproxy admin pause planner`. Not even stored answers are told to it.",
        paused,
        (
            Told("client", r"55000"),
            Told("log", r"warning: operator: action=pause, .*planner"),
            Told("log", r"statement: verdict=refused.*reason_class=paused"),
            Told("metrics", r'dpproxy_paused_roles\{dataset="clinic",role="planner"\} 1\.0'),
            Told("status", r'pauses: .*"role": "planner".*a lost laptop'),
            Told("console", r"Role planner of clinic is paused by .*: a lost laptop"),
            Told("ready", r"^200 "),
        ),
    ),
    Event(
        "It is resumed",
        4,
        17,
        "`dpproxy admin resume planner`.",
        resumed,
        (
            Told("client", r"^3 rows"),
            Told("audit", r'"action": "resume"'),
            Told("metrics", r"dpproxy_paused_roles", gone=True),
            Told("console", r"is paused by", gone=True),
        ),
    ),
    Event(
        "The clock is wrong",
        5,
        10,
        "Somebody sets the machine's clock three days ahead, into the next week, whose budgets are not due. Nothing is charged.",
        wrong_clock,
        (
            Told("client", r"the clock of the proxy's machine is in doubt.*\(57P03\)"),
            Told("log", r"error: nothing is charged: dataset=clinic, text=the clock ran ahead by 3 days"),
            Told("metrics", r'dpproxy_part_up\{part="ledger",process="0",subject="clinic"\} 0\.0'),
            Told(
                "metrics",
                r'dpproxy_refusals_total\{class="unavailable",code="57P03",dataset="clinic",process="0",role="planner"\}',
            ),
            Told("ready", r'^503 .*"ledger": false'),
            Told("status", r'"part": "ledger".*"works": false.*the clock ran ahead'),
            Told("console", r"The ledger of clinic does not work: the clock ran ahead"),
        ),
    ),
    Event(
        "The clock is set right",
        5,
        10.5,
        "No restart is needed.",
        right_clock,
        (
            Told("client", r"NOTICE: charged"),
            Told("ready", r'^200 .*"ledger": true'),
            Told("console", r"the clock ran ahead", gone=True),
        ),
    ),
    Event(
        "A new week",
        7,
        0.5,
        "Windows of a week and of a day have ended: budgets begin anew. What was spent in all stays.",
        new_week,
        (
            Told("client", r"NOTICE: charged epsilon 0\.5; role planner has epsilon 7\.5 left until 2026-12-07"),
            Told("metrics", r'dpproxy_budget_epsilon_spent\{dataset="clinic",name="planner",scope="role"\} 0\.5'),
            Told("status", r'accounts: .*"name": "planner".*"spent_epsilon": 500000'),
            Told("console", r"^7\.500 ε left of 8\.000 a week"),
            Told("console", r"of the budget of role planner", gone=True),
        ),
    ),
    Event(
        "It is stopped",
        7,
        1,
        "`dpproxy admin drain`.",
        stopped,
        (
            Told("client", r"^exit code 0"),
            Told("log", r"warning: operator: action=drain"),
            Told("audit", r'"action": "drain"'),
            Told("audit", r'"action": "stop"'),
        ),
    ),
)
