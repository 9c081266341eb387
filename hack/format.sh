#!/usr/bin/env bash
# Fails, and says where, if gofmt would change a file that git has or would add.
set -euo pipefail
cd "$(dirname "$0")/.."

wrong=$(git ls-files --cached --others --exclude-standard -- '*.go' | while read -r file; do
	if [ -e "$file" ]; then echo "$file"; fi # one that was removed may not be committed yet
done | xargs -r gofmt -l)
if [ -n "$wrong" ]; then
	printf 'not formatted; run gofmt -w on:\n%s\n' "$wrong" >&2
	exit 1
fi
