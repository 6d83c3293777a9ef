"""A process to be killed: charges from several threads, and prints each id once the charge is durable.

Arguments: the ledger (a path, or a DSN), a limit in charges, how many threads.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
import uuid

from dpproxy.amounts import MICRO
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import BudgetExhausted, ChargeRequest, Limits, charge
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss

ONE = Loss(MICRO)


def open_ledger(where: str) -> Journal:
    if where.startswith("postgresql:"):
        from dpproxy.records.postgres import PostgresLedger

        return PostgresLedger(where)
    from dpproxy.records.sqlite import SqliteLedger

    return SqliteLedger(where)


def work(ledger: Journal, limits: Limits) -> None:
    while True:
        id = str(uuid.uuid4())
        try:
            charge(ledger, ChargeRequest(id, "shop", "r", "u", ONE, ONE, limits, "h", dt.datetime.now(dt.UTC)))
        except BudgetExhausted:
            return
        os.write(1, f"{id}\n".encode())  # whole lines, unbuffered: an acknowledgement is out or it is not


def main(where: str, most: int, threads: int) -> None:
    ledger = open_ledger(where)
    limit = Limit(most * MICRO)
    os.write(1, b"ready\n")
    workers = [threading.Thread(target=work, args=(ledger, Limits(limit, limit))) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    ledger.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
