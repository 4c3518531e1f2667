#!/usr/bin/env bash
# Makes sure that Java 17 or newer is here. Silent when it is.
#
#   --optional    a missing Java is one warning line and success, not a failure
#   --print-home  print the Java home, for JAVA_HOME (nothing when there is none)
#
# Order: JAVA_HOME, java on the path, the usual folders (oldest that is new enough first: Spark supports the long-term
# releases longest). Nothing found: as root on Debian, install it; otherwise say in one line what to install.
set -euo pipefail

readonly MINIMUM=17 PACKAGE=openjdk-17-jre-headless
optional=false print_home=false
for argument in "$@"; do
    case $argument in
        --optional) optional=true ;;
        --print-home) print_home=true ;;
        *) printf 'ensure-java: unknown option %s\n' "$argument" >&2; exit 2 ;;
    esac
done

# The major version of the Java in home $1, or nothing. The release file answers without starting a JVM.
major_version() {
    local home=$1 version=
    [[ -x $home/bin/java ]] || return 0
    if [[ -r $home/release ]]; then
        version=$(sed -n 's/^JAVA_VERSION="\([^"]*\)".*/\1/p' "$home/release")
    fi
    if [[ -z $version ]]; then
        version=$("$home/bin/java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p') || version=
    fi
    [[ $version == 1.* ]] && version=${version#1.} # "1.8.0_402" is Java 8
    version=${version%%[!0-9]*}
    printf '%s' "$version"
}

is_new_enough() {
    local major
    major=$(major_version "$1")
    [[ -n $major && $major -ge $MINIMUM ]]
}

# The home of the java on the path. Asking Java itself sees through links, wrappers and version managers' shims.
home_on_path() {
    command -v java >/dev/null || return 0
    local real
    real=$(readlink -f "$(command -v java)" 2>/dev/null) || real=
    if [[ $real == */bin/java && -r ${real%/bin/java}/release ]]; then
        printf '%s' "${real%/bin/java}"
    else
        java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p' || true
    fi
}

homes_in_usual_folders() {
    local home major
    for home in /usr/lib/jvm/* /Library/Java/JavaVirtualMachines/*/Contents/Home; do
        major=$(major_version "$home")
        [[ -n $major ]] && printf '%s\t%s\n' "$major" "$home"
    done | sort -n | cut -f2
}

find_home() {
    local home
    while IFS= read -r home; do
        if [[ -n $home ]] && is_new_enough "$home"; then
            printf '%s' "$home"
            return
        fi
    done < <(printf '%s\n' "${JAVA_HOME:-}"; home_on_path; echo; homes_in_usual_folders)
}

install_on_debian() {
    [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null || return 0
    printf 'ensure-java: no Java %s or newer found, installing %s\n' "$MINIMUM" "$PACKAGE" >&2
    local options=(-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
    {
        apt-get "${options[@]}" update &&
            DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "$PACKAGE"
    } >/dev/null 2>&1 || true # whether it worked is asked of Java, below
}

home=$(find_home)
if [[ -z $home ]]; then
    install_on_debian
    home=$(find_home)
fi
if [[ -z $home ]]; then
    advice="install a JRE (Debian, Ubuntu: apt-get install $PACKAGE) or set JAVA_HOME"
    if $optional; then
        printf 'ensure-java: warning: no Java %s or newer found; Spark needs it: %s\n' "$MINIMUM" "$advice" >&2
        exit 0
    fi
    printf 'ensure-java: no Java %s or newer found: %s\n' "$MINIMUM" "$advice" >&2
    exit 1
fi
if $print_home; then printf '%s\n' "$home"; fi
