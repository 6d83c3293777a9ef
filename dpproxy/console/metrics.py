"""Numbers for Prometheus: budgets, what was answered, who is connected.

Knows: accounts, counts of answers and sessions. Must not know: statements, users' addresses, data: a scrape says how much
was asked, never what. It is the operator's, on an address of its own; analysts must not reach it, since what other roles
have spent is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from dpproxy.answers.dataset import Dataset
from dpproxy.answers.standings import AppliedBudget, standings
from dpproxy.budget.ledger import Standing, warnings
from dpproxy.policy.model import ATTO, MICRO

ACCOUNT = ("dataset", "scope", "name")


def budgets(dataset: Dataset) -> list[AppliedBudget]:
    """Return every budget of a policy: its roles', its users' own, and that of all together."""
    policy = dataset.policy
    roles = [AppliedBudget("role", role.name, role.budget) for role in policy.roles.values()]
    users = [AppliedBudget("user", user.name, user.budget) for user in policy.users.values() if user.budget is not None]
    return [*roles, *users, AppliedBudget("dataset", policy.dataset, policy.budget)]


def level(standing: Standing, held: AppliedBudget) -> int:
    """Return the highest of the policy's `warn` levels that is reached, in percent; 0 when none is."""
    return max(warnings(standing, held.budget.warn), default=0)


@dataclass(frozen=True)
class Metrics(Collector):
    """Collects the numbers anew at each scrape, in the scraper's thread. `datasets` and `sessions` are asked then.
    `delayed`: turns that had to wait since the start, and the seconds they waited, by dataset and role."""

    datasets: Callable[[], Mapping[str, Dataset]]
    sessions: Callable[[], int]
    delayed: Callable[[], Mapping[tuple[str, str], tuple[int, float]]] = dict

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: which numbers there are depends on the policies, and registering must not read the ledger."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        spent = GaugeMetricFamily("dpproxy_budget_epsilon_spent", "Epsilon spent in the budget's window.", labels=ACCOUNT)
        limit = GaugeMetricFamily("dpproxy_budget_epsilon_limit", "Epsilon of the budget, with what was granted.", labels=ACCOUNT)
        delta = GaugeMetricFamily("dpproxy_budget_delta_spent", "Delta spent in the budget's window.", labels=ACCOUNT)
        warned = GaugeMetricFamily("dpproxy_budget_warning_percent", "The highest warning level reached, or 0.", labels=ACCOUNT)
        answers = CounterMetricFamily(
            "dpproxy_answers", "Answers since the start, by what they cost.", labels=("dataset", "cost")
        )
        untold = CounterMetricFamily(
            "dpproxy_charged_untold",
            "Statements charged whose client was not told, since the start: why, and whether the answer is kept.",
            labels=("dataset", "role", "reason", "outcome"),
        )
        for name, dataset in sorted(self.datasets().items()):
            held = budgets(dataset)
            for standing, own in zip(standings(dataset.ledger, name, held), held, strict=True):
                account = (name, own.scope, own.name)
                spent.add_metric(account, standing.spent_epsilon / MICRO)
                limit.add_metric(account, standing.limit_epsilon / MICRO)
                delta.add_metric(account, standing.spent_delta / ATTO)
                warned.add_metric(account, level(standing, own))
            for cost in ("charged", "reused", "preview"):
                answers.add_metric((name, cost), dataset.tally[cost])
            for labels, count in sorted(dataset.paid.untold.copy().items()):
                untold.add_metric((name, *labels), count)
        yield from (spent, limit, delta, warned, answers, untold)
        yield from self._turns()
        yield GaugeMetricFamily("dpproxy_sessions", "Sessions logged in to this process.", value=self.sessions())

    def _turns(self) -> Iterator[CounterMetricFamily]:
        """Who was held back, so that others had their share."""
        labels = ("dataset", "role")
        turns = CounterMetricFamily(
            "dpproxy_delayed_turns", "Turns that waited since the start: the role was in debt.", labels=labels
        )
        seconds = CounterMetricFamily("dpproxy_delayed_seconds", "Seconds that turns waited since the start.", labels=labels)
        for role, (count, waited) in sorted(self.delayed().items()):
            turns.add_metric(role, count)
            seconds.add_metric(role, waited)
        yield from (turns, seconds)


def serve_metrics(host: str, port: int, metrics: Metrics) -> WSGIServer:
    """Listen for scrapes in a thread of their own. Raises OSError."""
    registry = CollectorRegistry()
    registry.register(metrics)
    server, _ = start_http_server(port, host, registry)
    return server
