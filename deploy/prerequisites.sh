#!/bin/sh
# Checks what `make setup` cannot install itself, names every missing piece at once, and exits 1 if there is any.
# Usage: prerequisites.sh [PYTHON]
set -u
python=${1:-python3}
missing=0

lacks() { # what, Debian packages, macOS formula, Fedora packages
    missing=1
    echo "missing: $1" >&2
    echo "    Debian: apt-get install $2" >&2
    echo "    macOS:  brew install $3" >&2
    echo "    Fedora: dnf install $4" >&2
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    found=$("$python" --version 2>&1) || found="no such command"
    lacks "Python 3.11 or newer ('$python': $found); name another one with 'make PYTHON=python3.12'" \
        "python3.11 python3.11-venv" "python@3.12" "python3.12"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    lacks "the venv module of $python" "python$version-venv" "python@$version" "python$version"
fi

java=java
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
    java=$JAVA_HOME/bin/java
fi
java_version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
if [ "${java_version:-0}" -lt 17 ]; then
    found=${java_version:+version $java_version}
    lacks "Java 17 or newer ('$java': ${found:-not found})" \
        "openjdk-17-jre-headless" "openjdk@17" "java-17-openjdk-headless"
fi

if ! command -v mvn >/dev/null 2>&1; then
    lacks "Maven, the command 'mvn'" "maven" "maven" "maven"
fi

exit $missing
