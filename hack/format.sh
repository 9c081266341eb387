#!/usr/bin/env bash
# Fails if gofmt would change a tracked or new file, and prints its name.
set -euo pipefail
cd "$(dirname "$0")/.."

wrong=$(git ls-files --cached --others --exclude-standard -- '*.go' | while read -r file; do
	if [ -e "$file" ]; then echo "$file"; fi # git still lists a file whose removal is not committed
done | xargs -r gofmt -l)
if [ -n "$wrong" ]; then
	printf 'files are not formatted; run gofmt -w on:\n%s\n' "$wrong" >&2
	exit 1
fi
