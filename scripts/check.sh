#!/usr/bin/env bash
# Runs the named checks of the repository (without arguments all but tests-lab and tests-quick), each under a heading.
#
# Every check runs even when an earlier one fails, so that one run shows everything; the exit status is 1 if any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

readonly PYTHON=.venv/bin/python
failed=()

# Tests of the package, or of the folders given, in two processes; a folder's tests stay in one.
run_tests() { "$PYTHON" -m pytest --numprocesses 2 --dist loadscope --no-loadscope-reorder "$@"; }

check() {
    local name=$1
    printf '\n== %s\n' "$name"
    case $name in
        lint) "$PYTHON" -m ruff check ;;
        format) "$PYTHON" -m ruff format --check ;;
        types) "$PYTHON" -m mypy --strict src lab/src ;;
        imports) .venv/bin/lint-imports --no-logo ;;
        tests) run_tests ;;
        tests-quick) run_tests tests/delivery tests/hub tests/rules tests/serving ;;
        tests-lab) run_tests lab/src lab/tests ;;
        *) printf 'check: unknown check %s (known: lint format types imports tests tests-quick tests-lab)\n' "$name" >&2; false ;;
    esac || failed+=("$name")
}

if [[ $# -eq 0 ]]; then set -- lint format types imports tests; fi
for name in "$@"; do check "$name"; done

printf '\n'
if [[ ${#failed[@]} -gt 0 ]]; then
    printf '== failed: %s\n' "${failed[*]}"
    exit 1
fi
printf '== passed: %s\n' "$*"
