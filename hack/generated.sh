#!/usr/bin/env bash
# Fails, and says where, if `make generate` changes, adds or removes a file. Compares with the files as they are and
# not with the last commit, so that it can be run before committing.
set -euo pipefail
cd "$(dirname "$0")/.."

sums() { git ls-files -z --cached --others --exclude-standard | xargs -0 -r sha256sum 2>/dev/null || true; }

before=$(sums)
make --no-print-directory generate
after=$(sums)
if [ "$before" != "$after" ]; then
	echo 'generated files were not current; `make generate` has changed:' >&2
	diff <(echo "$before") <(echo "$after") | awk '/^[<>]/ { print $3 }' | sort -u >&2
	exit 1
fi
