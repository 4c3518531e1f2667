#!/usr/bin/env bash
# Makes .venv ready: a virtual environment with the locked dependencies, and rankcast and its lab, editable.
#
# A repeat with nothing changed returns at once: .venv/.ready holds the fingerprint of everything the environment was
# made from (lock, project files, this script, place of the repository). It is written last. .venv/.unfinished
# exists while packages are written, so that an interrupted set-up starts again from nothing instead of trusting a
# half-unpacked package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv READY=.venv/.ready UNFINISHED=.venv/.unfinished PLACE=.venv/.place
readonly VERSION_CHECK='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'
# python3 first: it is the one the user chose. The others only help where it is too old or too new for the lock.
readonly CANDIDATES=(python3 python3.13 python3.12 python3.11 python3.14)

fail() {
    printf 'set-up: %s\n' "$1" >&2
    exit 1
}

fingerprint() {
    cksum requirements.lock pyproject.toml lab/pyproject.toml scripts/setup.sh
    pwd -P
}

# Scripts in an environment name its absolute path, so one that was moved or copied along is made anew.
venv_works() {
    [[ -x $VENV/bin/python && ! -e $UNFINISHED && -f $PLACE && $(<"$PLACE") == "$(pwd -P)" ]] &&
        "$VENV/bin/python" -c "import pip; $VERSION_CHECK" 2>/dev/null
}

find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        "$PYTHON" -c "$VERSION_CHECK" 2>/dev/null || fail "PYTHON=$PYTHON is not a Python 3.11 to 3.14"
        printf '%s\n' "$PYTHON"
        return
    fi
    for candidate in "${CANDIDATES[@]}"; do
        # Run it: a version manager's shim can be on the path without a Python behind it.
        if "$candidate" -c "$VERSION_CHECK" 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "no Python 3.11 to 3.14 found: install python3.11 (with its venv module), or name one with PYTHON=/path/to/python3"
}

make_venv() {
    local python
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian packs these modules apart from the interpreter.
        if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; } >/dev/null 2>&1 || true
        fi
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            fail "$python cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)"
    fi
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
    pwd -P >"$PLACE"
}

is_ready() {
    [[ -f $READY && $(<"$READY") == "$(fingerprint)" && -x $VENV/bin/python ]]
}

is_ready && exit 0
# Two set-ups of one working tree take turns; the second then finds everything done.
if command -v flock >/dev/null; then
    exec 9<requirements.lock
    flock 9
    is_ready && exit 0
fi

rm -f "$READY"
venv_works || make_venv
echo "set-up: installing the locked dependencies into $VENV"
touch "$UNFINISHED"
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet)
# pyspark is published as source only. What builds it comes first, from the lock too, so that nothing unlocked is fetched.
locked() { awk -v name="$1" '/^[^ #]/ { wanted = index($0, name "==") == 1 } wanted' requirements.lock; }
{
    "${pip[@]}" install --require-hashes --no-deps --only-binary :all: -r <(locked setuptools) &&
        "${pip[@]}" install --require-hashes --no-deps --only-binary :all: --no-binary pyspark --no-build-isolation \
            -r requirements.lock
} ||
    fail "the locked dependencies could not be installed (see above); run the command again to retry"
# hatchling and editables come with the lock, so this needs no network.
"${pip[@]}" install --no-deps --no-build-isolation -e . -e ./lab || fail "rankcast itself could not be installed (see above)"
rm -f "$UNFINISHED"
fingerprint >"$READY"
