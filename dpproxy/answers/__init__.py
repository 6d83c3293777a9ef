"""Answers: a plan is charged, measured, given noise and told. The only room where plan, ledger, engine and mechanisms meet."""
