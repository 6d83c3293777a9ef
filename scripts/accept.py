"""Run a file of labelled SQL statements against a proxy of its own.

usage: scripts/accept [--data-sets a,b] [--exact] [--init] [--verbose] [--json OUT] [--engine E] [--extract] FILE.jsonl

The proxy serves the data sets that FILE names, that have a policy in tests/corpus/policies, and whose database lies in
$DPPROXY_CORPUS (default: `db` beside FILE). FILE is run by the `run_acceptance.py` beside it, whose table is all that
comes out on standard output. With --exact the answers are compared with the engine's own instead: see exact.py. With
--engine postgres the data are copied into a PostgreSQL of its own, which the proxy then reads; with --extract too, an extract
of it. With --exact --engine sail they are copied into files that a Sail of its own reads, and answers are compared with
DuckDB's. With --init the policies are what `dpproxy policy init` drafts, with the decisions of the sketches in `policy`
beside FILE and nothing else: see drafted.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import corpus_spark
from corpus_postgres import loaded, pointed
from drafted import drafted
from exact import compare
from generous import generous
from scratch_postgres import scratch_server

from dpproxy.serve.launch import (
    LaunchError,
    Proxy,
    end_on_sigterm,
    launched,
)

POLICIES = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "policies"
USER = "analyst"  # of every policy there; the password is the same word


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def chosen(file: Path, asked: str, corpus: Path) -> list[str]:
    """Return the data sets to serve, in order; those that cannot be served are named on standard error."""
    named = {json.loads(line)["dataset"] for line in file.read_text().splitlines() if line.strip()}
    wanted = set(filter(None, asked.split(","))) or named
    for name in sorted(wanted - named):
        say(f"{name}: no statements in {file.name}")
    able = []
    for name in sorted(wanted & named):
        if not (POLICIES / f"{name}.yaml").is_file():
            say(f"{name}: left out, no policy in {POLICIES}")
        elif not (corpus / f"{name}.duckdb").is_file():
            say(f"{name}: left out, no database in {corpus}")
        else:
            able.append(name)
    return able


def on_postgres(stack: contextlib.ExitStack, data_sets: list[str], corpus: Path, folder: Path) -> dict[str, str]:
    """Copy the data sets into a scratch PostgreSQL that lives as long as the stack. Returns the DSNs of the copies."""
    server = stack.enter_context(scratch_server(folder / "postgres", settings={"work_mem": "64MB", "shared_buffers": "256MB"}))
    dsns = {}
    for name in data_sets:
        say(f"loading {name} into PostgreSQL {server.major}")
        schema = corpus.parent / "schema" / f"{name}.postgres.sql"
        dsns[name] = loaded(server, name, corpus / f"{name}.duckdb", schema, folder)
    return dsns


def on_sail(stack: contextlib.ExitStack, data_sets: list[str], corpus: Path, folder: Path) -> dict[str, str]:
    """Copy the data sets into files that a Sail of this process reads as long as the stack lives. Returns an address for each.
    The proxy is told by its environment what a session runs first."""
    server = stack.enter_context(corpus_spark.sail())
    addresses, statements = {}, {}
    for name in data_sets:
        addresses[name] = f"{server}/;data={name}"
        (folder / "files" / name).mkdir(parents=True)
        statements[addresses[name]] = corpus_spark.written(corpus / f"{name}.duckdb", folder / "files" / name)
    (folder / "tables.json").write_text(json.dumps(statements))
    os.environ["DPPROXY_ACCEPT_TABLES"] = str(folder / "tables.json")
    return addresses


def run(options: argparse.Namespace, data_sets: list[str], proxy: Proxy) -> int:
    """Run the runner beside FILE, with its standard output as ours."""
    dsn = f"host={proxy.host} port={proxy.port} user={USER} password={USER} dbname={{dataset}}"
    command = [sys.executable, str(options.file.with_name("run_acceptance.py")), str(options.file), "--dsn", dsn]
    command += ["--data-sets", ",".join(data_sets)]
    command += ["--verbose"] if options.verbose else []
    command += ["--json", options.json] if options.json else []
    command += ["--engine", options.engine] if options.engine else []
    return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/accept", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--data-sets", default="", metavar="A,B", help="default: all of FILE's that have a policy")
    parser.add_argument("--exact", action="store_true", help="compare noiseless answers with the engine's own")
    parser.add_argument("--init", action="store_true", help="policies drafted of the sketches beside FILE")
    parser.add_argument("--verbose", action="store_true", help="each miss, with its error, on standard error")
    parser.add_argument("--json", metavar="OUT", help="write one JSON object a statement")
    parser.add_argument("--engine", metavar="E", help="duckdb (default), postgres; with --exact also sail")
    parser.add_argument("--extract", action="store_true", help="with --engine postgres: policies say `accelerate: extract`")
    options = parser.parse_args()
    if options.engine == "sail" and not options.exact:
        parser.error("--engine sail is for --exact: labels are of engines that take all SQL")
    end_on_sigterm()
    corpus = Path(os.environ.get("DPPROXY_CORPUS") or options.file.resolve().parent / "db").resolve()
    os.environ["DPPROXY_CORPUS"] = str(corpus)  # where the policies say the data are
    data_sets = chosen(options.file, options.data_sets, corpus)
    if not data_sets:
        say("nothing to run")
        return 2
    policies = [POLICIES / f"{name}.yaml" for name in data_sets]
    say(f"starting a proxy over {', '.join(data_sets)}")
    try:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpproxy-accept-")))
            engines = {name: str(corpus / f"{name}.duckdb") for name in data_sets}
            if options.init:
                sketches = options.file.resolve().parent / "policy"
                policies = [drafted(sketches / f"{name}.json", corpus / f"{name}.duckdb", folder) for name in data_sets]
            if options.engine == "postgres":
                engines = on_postgres(stack, data_sets, corpus, folder)
                policies = [pointed(policy, engines[policy.stem], folder, options.extract) for policy in policies]
            if options.engine == "sail":
                addresses = on_sail(stack, data_sets, corpus, folder)
                policies = [corpus_spark.pointed(policy, addresses[policy.stem], folder) for policy in policies]
            if options.exact:
                policies = [generous(policy, corpus / f"{policy.stem}.duckdb", folder) for policy in policies]
            program = (sys.executable, str(Path(__file__).with_name("loaded_dice.py"))) if options.exact else ()
            proxy = stack.enter_context(launched(policies, folder / "state", program=program))
            say(f"running {options.file.name} on {proxy.host}:{proxy.port}")
            found = {policy.stem: policy for policy in policies}
            status = compare(options, data_sets, proxy, engines, found) if options.exact else run(options, data_sets, proxy)
            if proxy.process.poll() is not None:
                say("the proxy ended before its time:\n" + "\n".join(list(proxy.said)[-20:]))
                status = status or 1
    except LaunchError as error:
        say(str(error))
        return 1
    say("the proxy is stopped")
    return status


if __name__ == "__main__":
    sys.exit(main())
