#!/usr/bin/env bash
# Fails where the two modules build a dependency that both have at different versions: what they share is compiled once
# only if they agree, and that is half of the time that the first build takes.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}

# linked MODULE PACKAGE: each module that a program links, with its version.
linked() {
	(cd "$1" && $go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' "$2" | sort -u)
}

differ=$(join <(linked . ./cmd/espalier) <(linked controlplane ./cmd/espalier-controlplane) | awk '$2 != $3')
if [ -n "$differ" ]; then
	printf 'go.mod and controlplane/go.mod disagree; go get the newer one in the other module:\n%s\n' "$differ" >&2
	exit 1
fi
