#!/usr/bin/env bash
# Fails if two modules use different versions of a dependency. Equal versions are compiled only once, which halves the
# time of the first build; and the workspace, which uses the newest version, would not test the version that a program
# is built with.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}

# linked MODULE PACKAGES prints the modules that the packages are linked with, and their versions.
linked() {
	(cd "$1" && GOWORK=off $go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' "$2")
}

differ=$({
	for module in . cmd/espalier providers/aws providers/postgresql providers/sandbox test; do linked "$module" ./...; done
	linked controlplane ./cmd/espalier-controlplane
} | sort -u | awk '{ versions[$1] = versions[$1] " " $2; if (count[$1]++) twice[$1] } END { for (m in twice) print m versions[m] }')
if [ -n "$differ" ]; then
	printf 'go.mod files have different versions; go get the newest one in the other modules:\n%s\n' "$differ" >&2
	exit 1
fi
