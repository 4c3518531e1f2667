#!/usr/bin/env bash
# Makes sure that the programs of a PostgreSQL server are here, for the tests that write to one. Silent when they are.
#
#   --print-programs  print the folder of initdb and postgres
#
# Order: the path, then Debian's folders (newest first). Nothing found: as root on Debian, install it; otherwise say in
# one line what to install. No server is started here: a test starts its own, in a folder of its own.
set -euo pipefail

readonly PACKAGE=postgresql
print_programs=false
for argument in "$@"; do
    case $argument in
        --print-programs) print_programs=true ;;
        *) printf 'ensure-postgres: unknown option %s\n' "$argument" >&2; exit 2 ;;
    esac
done

find_programs() {
    local folder
    while IFS= read -r folder; do
        if [[ -n $folder && -x $folder/initdb && -x $folder/postgres ]]; then
            printf '%s' "$folder"
            return
        fi
    done < <(
        if command -v initdb >/dev/null; then dirname "$(readlink -f "$(command -v initdb)")"; fi
        printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV
    )
}

install_on_debian() {
    [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null || return 0
    printf 'ensure-postgres: no PostgreSQL server found, installing %s\n' "$PACKAGE" >&2
    local options=(-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
    {
        apt-get "${options[@]}" update &&
            DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "$PACKAGE"
    } >/dev/null 2>&1 || true # whether it worked is seen below
}

programs=$(find_programs)
if [[ -z $programs ]]; then
    install_on_debian
    programs=$(find_programs)
fi
if [[ -z $programs ]]; then
    printf 'ensure-postgres: no PostgreSQL server found: install one (Debian, Ubuntu: apt-get install %s)\n' "$PACKAGE" >&2
    exit 1
fi
if $print_programs; then printf '%s\n' "$programs"; fi
