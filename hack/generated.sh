#!/usr/bin/env bash
# Fails if `make generate` changes, adds or removes a file, and prints its name. It compares with the working tree and
# not with the last commit, so that it can run before a commit.
set -euo pipefail
cd "$(dirname "$0")/.."

sums() { git ls-files -z --cached --others --exclude-standard | xargs -0 -r sha256sum 2>/dev/null || true; }

before=$(sums)
make --no-print-directory generate
after=$(sums)
if [ "$before" != "$after" ]; then
	echo 'generated files were not current; commit these changes of `make generate`:' >&2
	diff <(echo "$before") <(echo "$after") | awk '/^[<>]/ { print $3 }' | sort -u >&2
	exit 1
fi
