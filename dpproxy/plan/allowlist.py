"""Every function of PostgreSQL that may run below a measurement, by name.

Knows: the builders of the rooms beside it. Must not know: engines. What is not here is refused by name.
"""

from __future__ import annotations

from dpproxy.plan import functions, functions_number, functions_text, functions_time, patterns
from dpproxy.plan.functions import Builder

FUNCTIONS: dict[str, Builder] = {
    **functions.FUNCTIONS,
    **functions_text.FUNCTIONS,
    **functions_number.FUNCTIONS,
    **functions_time.FUNCTIONS,
    **patterns.FUNCTIONS,
}
