# Sourced by the scripts beside it: leaves in $python an interpreter that has dpproxy with everything it needs, as
# pyproject.toml and constraints.txt say. Made in .venv on first use, and brought up to date when those files change.
# DPPROXY_VENV=FOLDER uses an environment made elsewhere as it is. PYTHON=... chooses the interpreter to start from.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.11 or later is needed (looked for \$PYTHON, python3, python3.13, python3.12, python3.11)"
    return 1
}

stamp_of() { # what the environment depends on: the two files, the interpreter, and where the editable install points
    { cat "$root/pyproject.toml" "$root/constraints.txt" && "$1" --version && printf '%s\n' "$root"; } | cksum
}

made_here() { # by this interpreter, in this folder: then it is brought up to date in place, since others may be running in it
    local base=$1 venv=$2
    [ "$("$venv/bin/python" --version 2>/dev/null)" = "$("$base" --version)" ] &&
        head -n 3 "$venv/bin/pip" 2>/dev/null | grep -qF "$venv/bin/python"
}

install_into() {
    local base=$1 venv=$2
    if made_here "$base" "$venv"; then
        say "bringing $venv up to date"
    else
        say "making $venv (a minute or two, once)"
        if ! "$base" -m venv --clear "$venv" >&2; then
            say "could not make a virtual environment: on Debian and Ubuntu install python3-venv"
            return 1
        fi
    fi
    "$venv/bin/python" -m pip install --no-input -c "$root/constraints.txt" -e "${root}[dev]" 2>&1 |
        tee "$venv/install.log" | awk '/^Collecting|^Installing collected/ { print "  " $1, $2; fflush() }' >&2
    if [ "${PIPESTATUS[0]}" -ne 0 ]; then
        tail -n 20 "$venv/install.log" >&2
        return 1
    fi
}

ensure_venv() {
    local base stamp venv="$root/.venv"
    if [ -n "${DPPROXY_VENV:-}" ]; then
        python="$DPPROXY_VENV/bin/python"
        return
    fi
    base=$(find_python) || return 1
    stamp=$(stamp_of "$base") || return 1
    if [ "$(cat "$venv/.stamp" 2>/dev/null)" != "$stamp" ]; then
        install_into "$base" "$venv" || return 1
        printf '%s\n' "$stamp" >"$venv/.stamp"
    fi
    python="$venv/bin/python"
}

ensure_venv || exit 1
