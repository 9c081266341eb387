#!/usr/bin/env bash
# Fails where two modules build a dependency that both have at different versions: what they share is compiled once
# only if they agree, and that is half of the time that the first build takes. The workspace would test with the newest
# of them, and hide what a module is built with by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}

# linked MODULE PACKAGES: each module that they link, with its version.
linked() {
	(cd "$1" && GOWORK=off $go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' "$2")
}

differ=$({
	for module in . cmd/espalier providers/postgresql providers/sandbox test; do linked "$module" ./...; done
	linked controlplane ./cmd/espalier-controlplane
} | sort -u | awk '{ versions[$1] = versions[$1] " " $2; if (count[$1]++) twice[$1] } END { for (m in twice) print m versions[m] }')
if [ -n "$differ" ]; then
	printf 'the go.mod files disagree; go get the newest in the other modules:\n%s\n' "$differ" >&2
	exit 1
fi
