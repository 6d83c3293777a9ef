"""What holds the cases that the runner of attacks does not judge: proxies that are reloaded, clocks that jump, files that go.

Knows: ids of cases, where the suite tries the like, what SECURITY.md says. Must not know: results. A case without a line here
stops the page.
"""

from __future__ import annotations

PAID = "Each text is the same measurement, which is not drawn again, or is paid for"
NOBODY = "Nothing of dpproxy's"

HELD = {
    "composition-02": f"{PAID}: `tests/plan/measure/test_normal_form.py`.",
    "composition-03": f"{PAID}: `tests/plan/measure/test_normal_form.py`, `tests/answers/test_paid_measurements.py`.",
    "composition-05": "Each count is paid for; `dpproxy audit` tries it (`tests/audit/test_wire.py`).",
    "composition-07": "Each count is paid for; `dpproxy audit` tries it (`tests/audit/test_reconstruction.py`).",
    "composition-09": "Noise is whole numbers on a grid that data do not decide: `tests/mechanisms/test_release.py`.",
    "composition-10": "The dataset has a budget of its own, for all roles together: `tests/ledger/test_ledger.py`.",
    "composition-11": "Budgets are roles', however they log in: `tests/ledger/test_ledger.py`, `tests/server/test_login.py`.",
    "composition-13": "A charge is never given back: `tests/answers/test_paid_kills.py`.",
    "timing-05": "Not promised without `timing.quantum`; with it `tests/answers/test_time_grid.py`.",
    "protocol-04": "A plan of an earlier policy is made again: `tests/serve/test_reload.py`.",
    "protocol-06": "A parameter is a value, never a name: `tests/session/test_extended_query.py`.",
    "protocol-09": f"{PAID}: `tests/plan/measure/test_normal_form.py`.",
    "protocol-11": "It is charged, and kept for the next who asks: `tests/session/test_client.py`.",
    "protocol-16": "PostgreSQL's own state machine, on the facade: `tests/session/test_simple_query.py`.",
    "protocol-17": "The tag counts groups that are released: `tests/mechanisms/test_release.py`.",
    "protocol-18": "What an engine says has no way out but the mechanisms: `tests/mechanisms/test_exact_answers.py`.",
    "protocol-19": "Settings are the facade's, which has no private row: `tests/session/test_greeting.py`.",
    "protocol-20": "Settings are the facade's, which has no private row: `tests/server/test_login.py`.",
    "protocol-21": "Texts are decoded before they are read, or refused: `tests/session/test_encodings.py`.",
    "protocol-23": "Refused: `tests/session/test_greeting.py`.",
    "protocol-25": "Where TLS is required nobody comes in without: `tests/server/test_connection.py`; a client must ask for it.",
    "protocol-26": "What comes behind the request in clear is refused: `tests/server/test_tls.py`.",
    "protocol-28": "Wrong passwords and unknown users look alike: `tests/wire/test_scram.py`.",
    "protocol-29": "Guesses of a network, and of a name, are few a day: `tests/limits/test_throttle.py`.",
    "protocol-30": "A key has 32 random bits, and 256 with protocol 3.2: `tests/server/test_login.py`.",
    "protocol-32": "A login has a limit of time: `tests/session/test_timeouts.py`.",
    "protocol-33": "A login has a limit of time: `tests/session/test_timeouts.py`.",
    "protocol-35": "One message for all failures after a charge: `tests/answers/test_failures.py`.",
    "protocol-36": "No log has statements or data: `tests/facade/test_facade.py`, `tests/mechanisms/test_exact_answers.py`.",
    "protocol-37": "What is formatted is a released number: `tests/mechanisms/test_release.py`.",
    "protocol-38": "The facade writes released numbers in either format: `tests/clients/test_asyncpg.py`.",
    "protocol-40": "The version is negotiated: `tests/session/test_greeting.py`.",
    "operations-01": "Aliases and tags are refused: `tests/policy/test_tree.py`.",
    "operations-07": "Rows of nobody are not measured: `tests/kernel/test_contributions.py`.",
    "operations-09": "Ids are compared in one type: `tests/kernel/test_classes.py`. Who has two ids is two people.",
    "operations-11": "Each epoch of the data is charged anew, to the same budget: `tests/reuse/test_data_epoch.py`.",
    "operations-12": "Of PostgreSQL found at start: `tests/policy/test_exposed_rows.py`. Of DuckDB not (SECURITY.md).",
    "operations-13": "Found at start: `tests/policy/test_exposed_rows.py`.",
    "operations-15": "Found where an anchor is elsewhere: `tests/ledger/test_witness.py`.",
    "operations-16": "Found where an anchor is elsewhere: `tests/ledger/test_witness.py`.",
    "operations-18": f"{NOBODY}: two ledgers know nothing of each other. Operators are trusted (SECURITY.md).",
    "operations-19": "Amounts are whole numbers: `tests/test_amounts.py`, `tests/ledger/test_ledger.py`.",
    "operations-20": "Delta is counted as epsilon is: `tests/ledger/test_ledger.py`.",
    "operations-21": "A clock that jumps stops windows until an operator says so: `tests/ledger/test_clock.py`.",
    "operations-23": "The dataset's budget stays charged: `tests/test_bookkeeping.py`.",
    "operations-26": "One file reaches a generator, the operating system's: `tests/mechanisms/test_entropy.py`.",
    "operations-28": f"{NOBODY}: who reads the machine's memory is trusted (SECURITY.md).",
    "operations-29": "The facade has no rights: `tests/facade/test_facade.py`. The engine's own door is the operator's.",
    "operations-30": "What the account needs is documented and enough: `tests/backends/test_postgres_grants.py`.",
    "operations-31": "Row-level security is a warning at start: `tests/policy/test_exposed_rows.py`.",
}

REPORTS = """\
## Attacks on reports

Of tables of reports devices promise, and the proxy only counts: the collection above has no cases of them. What is known, what holds:

| attack | what holds |
|---|---|
| averaging: a question asked every day, until the coin shows through | A device's ledger bounds the sum for ever, whatever is asked: `tests/collect/test_ledger.py`. `answers: memoised` repeats one report: `tests/collect/test_queue.py`. A fresh coin of 3/4 each day lets the answer be guessed in 93 of 100 after a week |
| a ledger put back: the state of last week, restored | A witness in its folder says so, and nothing is told: `tests/collect/test_ledger.py`. Where both are put back, nobody knows |
| a clock set back or forward, for another day's reports | A day before one that was seen is none: `tests/collect/test_queue.py`. A clock set forward spends days ahead, and `total` bounds them |
| a seed of one's own: a server hands one device hash functions that nobody else has | The file is shipped with the app and pinned by its hash: `tests/collect/test_device.py`. With a seed of its choice a server learns no more than epsilon from a report |
| a question of one's own, or a larger epsilon | The app's `max_epsilon`, `daily` and `total` bind: `tests/collect/test_device.py` |
| poisoning: devices that report what they like | Nothing: each moves a count by at most (1 - q)/(p - q), which EXPLAIN says. Reports outside their space, and vectors with too many bits, are refused: `tests/collector/test_web.py` |
| a batch sent again and again, to count more | Counted once for 48 hours: `tests/collector/test_loading.py`. Batches of other names are poisoning |
| addresses and times, kept to link reports | The collector keeps none: `tests/collector/test_serving.py`. Who runs it can watch its wire |
| a slow or large body, many connections | Limits of time, bytes and rates: `tests/collector/test_web.py`, `tests/collector/test_serving.py`, `tests/collector/test_limits.py` |
"""
"""The end of the page."""
