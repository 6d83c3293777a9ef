"""What processes know of themselves as numbers for Prometheus: budgets, statements, who is connected, whether the parts work.

Knows: statuses (`operations.status`), the form Prometheus reads. Must not know: how a status is made, statements, addresses,
data: a scrape says how much was asked and of what kind, never what. It is the operator's; analysts must not reach it, since
what other roles have spent is in it. `FAMILIES` is the whole list: the reference page, the dashboard and the alert rules are
held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from dpproxy.amounts import ATTO, MICRO
from dpproxy.operations.status import Status
from dpproxy.telemetry.tallies import BUCKETS

Metric = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


@dataclass(frozen=True)
class Family:
    """One metric: its type, its labels, what it says."""

    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


ACCOUNT: Final = ("dataset", "scope", "name")
FAMILIES: Final[Mapping[str, Family]] = {
    "dpproxy_budget_epsilon_spent": Family("gauge", "Epsilon spent in the budget's window.", ACCOUNT),
    "dpproxy_budget_epsilon_limit": Family("gauge", "Epsilon of the budget, with what was granted.", ACCOUNT),
    "dpproxy_budget_epsilon_left": Family("gauge", "Epsilon that one further statement may cost.", ACCOUNT),
    "dpproxy_budget_epsilon_lifetime": Family("gauge", "Epsilon spent in all windows, added up.", ACCOUNT),
    "dpproxy_budget_delta_spent": Family("gauge", "Delta spent in the budget's window.", ACCOUNT),
    "dpproxy_budget_delta_limit": Family("gauge", "Delta of the budget, with what was granted.", ACCOUNT),
    "dpproxy_budget_warning_percent": Family("gauge", "The highest warning level reached, in percent, or 0.", ACCOUNT),
    "dpproxy_budget_resets_timestamp_seconds": Family("gauge", "When the window ends; absent for `never`.", ACCOUNT),
    "dpproxy_epsilon_spent": Family(
        "counter", "Epsilon charged by this process since its start; its rate is the burn.", ("process", "dataset", "role")
    ),
    "dpproxy_epsilon_saved": Family(
        "counter", "Epsilon of what was shown at no charge since the start.", ("process", "dataset", "role")
    ),
    "dpproxy_statements": Family(
        "counter", "Statements over private tables since the start.", ("process", "dataset", "role", "verdict")
    ),
    "dpproxy_refusals": Family(
        "counter",
        "Statements refused, or failed after their charge, since the start.",
        ("process", "dataset", "role", "class", "code"),
    ),
    "dpproxy_statement_seconds": Family(
        "histogram", "How long statements took, on the policy's time grid.", ("process", "dataset", "verdict")
    ),
    "dpproxy_charged_untold": Family(
        "counter",
        "Statements charged whose client got no answer, since the start: why, and whether the answer is kept.",
        ("process", "dataset", "role", "reason", "outcome"),
    ),
    "dpproxy_logins": Family("counter", "Logins since the start, by how they ended.", ("process", "dataset", "outcome")),
    "dpproxy_sessions": Family("gauge", "Sessions that are logged in.", ("process", "dataset", "role", "state")),
    "dpproxy_delayed_turns": Family(
        "counter", "Turns that waited since the start: the role was in debt.", ("process", "dataset", "role")
    ),
    "dpproxy_delayed_seconds": Family("counter", "Seconds that turns waited since the start.", ("process", "dataset", "role")),
    "dpproxy_paused_roles": Family("gauge", "1 for each role that an operator has paused.", ("dataset", "role")),
    "dpproxy_measurements_running": Family("gauge", "Charged rounds that are being measured.", ("process", "dataset")),
    "dpproxy_measurement_places": Family("gauge", "Measurements each role may have at once.", ("process", "dataset")),
    "dpproxy_prepared_copy": Family(
        "gauge", "1, with what there is of a prepared copy: none, looking, making, used, failed.", ("process", "dataset", "state")
    ),
    "dpproxy_prepared_copy_bytes": Family("gauge", "Disk that the prepared copy takes.", ("process", "dataset")),
    "dpproxy_extract_timestamp_seconds": Family(
        "gauge", "When the snapshot was taken that is served of a PostgreSQL database, where it is one.", ("process", "dataset")
    ),
    "dpproxy_policy_loaded_timestamp_seconds": Family("gauge", "When the policy was read.", ("process", "dataset")),
    "dpproxy_policy_reload_failed": Family(
        "gauge", "1 where the policy's file could not be read again: an earlier one is served.", ("process", "dataset")
    ),
    "dpproxy_part_up": Family("gauge", "1 where a facade, backend or ledger works.", ("process", "part", "subject")),
    "dpproxy_part_seconds": Family(
        "gauge",
        "Seconds a part took to answer: a connection to the facade, an empty query, an empty transaction of the ledger.",
        ("process", "part", "subject"),
    ),
    "dpproxy_log_lines": Family("counter", "Lines of the log since the start.", ("process", "level")),
    "dpproxy_memory_bytes": Family("gauge", "Memory of the proxy's process, without the facade.", ("process",)),
    "dpproxy_start_timestamp_seconds": Family("gauge", "When the process started.", ("process",)),
    "dpproxy_build_info": Family("gauge", "1, with the version.", ("process", "version")),
}
"""Every metric. Counters are told with `_total` behind the name."""

Sample = tuple[str, tuple[str, ...], float]


def samples(statuses: Sequence[Status]) -> Iterator[Sample]:
    """Yield each number by its family and labels, but for histograms."""
    for status in statuses[:1]:  # what all processes share
        yield from _budgets(status)
        for pause in status.pauses:
            yield "dpproxy_paused_roles", (pause.dataset, pause.role), 1
    for status in statuses:
        number = str(status.process)
        for name, labels, value in (*_counted(status), *_parts(status)):
            yield name, (number, *labels), value


def _budgets(status: Status) -> Iterator[Sample]:
    for account in status.accounts:
        labels = (account.dataset, account.scope, account.name)
        yield "dpproxy_budget_epsilon_spent", labels, account.spent_epsilon / MICRO
        yield "dpproxy_budget_epsilon_limit", labels, account.limit_epsilon / MICRO
        yield "dpproxy_budget_epsilon_left", labels, account.left_epsilon / MICRO
        yield "dpproxy_budget_epsilon_lifetime", labels, account.lifetime_epsilon / MICRO
        yield "dpproxy_budget_delta_spent", labels, account.spent_delta / ATTO
        yield "dpproxy_budget_delta_limit", labels, account.limit_delta / ATTO
        yield "dpproxy_budget_warning_percent", labels, account.warned
        if account.resets is not None:
            yield "dpproxy_budget_resets_timestamp_seconds", labels, account.resets


def _counted(status: Status) -> Iterator[Sample]:
    counted = status.counted
    for name, counts, unit in (
        ("dpproxy_statements", counted.statements, 1),
        ("dpproxy_refusals", counted.refusals, 1),
        ("dpproxy_epsilon_spent", counted.spent, MICRO),
        ("dpproxy_epsilon_saved", counted.saved, MICRO),
        ("dpproxy_logins", counted.logins, 1),
    ):
        yield from ((name, labels, count / unit) for labels, count in counts)
    for *labels, count in status.untold:
        yield "dpproxy_charged_untold", tuple(map(str, labels)), float(count)
    for dataset, role, turns, seconds in status.delayed:
        yield "dpproxy_delayed_turns", (dataset, role), turns
        yield "dpproxy_delayed_seconds", (dataset, role), seconds
    for level, lines in status.lines:
        yield "dpproxy_log_lines", (level,), lines


def _parts(status: Status) -> Iterator[Sample]:
    sessions: dict[tuple[str, ...], int] = {}
    for session in status.sessions:
        labels = (session.dataset, session.role, session.state)
        sessions[labels] = sessions.get(labels, 0) + 1
    yield from (("dpproxy_sessions", labels, count) for labels, count in sorted(sessions.items()))
    for dataset in status.datasets:
        yield "dpproxy_measurements_running", (dataset.name,), dataset.running
        yield "dpproxy_measurement_places", (dataset.name,), dataset.places
        yield "dpproxy_prepared_copy", (dataset.name, dataset.copy), 1
        yield "dpproxy_prepared_copy_bytes", (dataset.name,), dataset.copy_bytes
        if dataset.extract:
            yield "dpproxy_extract_timestamp_seconds", (dataset.name,), dataset.extract
        yield "dpproxy_policy_loaded_timestamp_seconds", (dataset.name,), dataset.loaded
        yield "dpproxy_policy_reload_failed", (dataset.name,), bool(dataset.problem)
    for check in status.checks:
        yield "dpproxy_part_up", (check.part, check.subject), check.works
        yield "dpproxy_part_seconds", (check.part, check.subject), check.seconds
    yield "dpproxy_memory_bytes", (), status.memory
    yield "dpproxy_start_timestamp_seconds", (), status.started
    yield "dpproxy_build_info", (status.version,), 1


def families(statuses: Sequence[Status]) -> Iterator[Metric]:
    """Yield every metric in the order of `FAMILIES`, also those without a number."""
    found: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for sample in samples(statuses):
        found[sample[0]].append(sample)
    for name, family in FAMILIES.items():
        if family.kind == "histogram":
            yield _histogram(name, family, statuses)
            continue
        made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = made(name, family.help, labels=family.labels)
        for _, labels, value in found[name]:
            metric.add_metric(labels, value)
        yield metric


def _histogram(name: str, family: Family, statuses: Iterable[Status]) -> Metric:
    metric = HistogramMetricFamily(name, family.help, labels=family.labels)
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    for status in statuses:
        for labels, latency in status.counted.latencies:
            below = list(zip(bounds, map(float, accumulate(latency.counts)), strict=True))
            metric.add_metric((str(status.process), *labels), below, sum_value=latency.seconds)
    return metric


@dataclass(frozen=True)
class Scrape:
    """What Prometheus' library writes: what all processes know now."""

    statuses: Sequence[Status]

    def collect(self) -> Iterator[Metric]:
        return families(self.statuses)


def page(statuses: Sequence[Status]) -> bytes:
    """Return what Prometheus reads."""
    return generate_latest(Scrape(statuses))
