#!/usr/bin/env bash
# Installs the implementation of AWS that tests of the AWS provider use (hack/testcloud/requirements.txt) into
# bin/testcloud, unless it is there, and prints the path of its program. It needs Python 3.11 or later, with venv or pip.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
fail() {
	echo "cannot install the test cloud: $1" >&2
	echo "It needs Python 3.11 or later with venv or pip (on Debian and Ubuntu: apt-get install python3-venv), and a package index; PYTHON names another interpreter." >&2
	exit 1
}

requirements=$PWD/hack/testcloud/requirements.txt
# Another version of the requirements or of this script is another folder.
version=$(cat "$requirements" hack/testcloud.sh | cksum | cut -d' ' -f1)
target=$PWD/bin/testcloud/$version
program=$target/ministack
if [ -x "$program" ] && "$target/python" -c 'import ministack' 2>/dev/null; then
	echo "$program"
	exit
fi

command -v "$python" >/dev/null || fail "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$($python --version) is too old"

# Test packages may install it at the same time: each into a folder of its own, and the first one to be complete stays.
mkdir -p bin/testcloud
new=$(mktemp -d "$PWD/bin/testcloud/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
echo "Installing the test cloud (ministack) into bin/testcloud" >&2
# PYTHONPATH finds the packages, since the scripts of a virtual environment have absolute paths, and it is moved.
options=(--quiet --disable-pip-version-check --no-input --require-hashes --only-binary :all: --target "$new/packages" -r "$requirements")
if "$python" -m venv "$new/venv" >"$new/log" 2>&1; then
	"$new/venv/bin/python" -m pip install "${options[@]}" >>"$new/log" 2>&1 || fail "$(cat "$new/log")"
	rm -rf "$new/venv"
else
	"$python" -m pip install "${options[@]}" >>"$new/log" 2>&1 || fail "$(cat "$new/log")"
fi

# -S leaves out the interpreter's own packages: some of them, such as Docker's, make it start more than its endpoint.
interpreter=$("$python" -c 'import sys; print(sys.executable)')
cat >"$new/python" <<-EOF
	#!/bin/sh
	PYTHONPATH='$target/packages' exec '$interpreter' -S "\$@"
EOF
cat >"$new/ministack" <<-EOF
	#!/bin/sh
	exec '$target/python' -m ministack "\$@"
EOF
chmod +x "$new/python" "$new/ministack"

# A folder whose Python was removed does not work any more.
if [ -e "$target" ] && ! "$target/python" -c 'import ministack' 2>/dev/null; then rm -rf "$target"; fi
# If another process has completed the folder meanwhile, this one is superfluous.
if [ ! -e "$target" ]; then mv "$new" "$target"; fi
[ -x "$program" ] || fail "$program is missing"
echo "$program"
