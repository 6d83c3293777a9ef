"""The device's half of reports: randomisation, ledger, queue, posting. The standard library and `local` alone."""
