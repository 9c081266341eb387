#!/usr/bin/env bash
# Builds the release of the last commit twice, in two directories and with two compilation caches, and fails unless the
# files are the same. VERSION is the version, BASE_URL where the archives will be downloaded from.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "$(git status --porcelain)" ]; then
	echo 'the working tree has changes that are not committed, and that the release would lack' >&2
	exit 1
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/espalier-release.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
revision=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# build TREE builds the release in a copy of the commit at a path of its own.
build() {
	mkdir -p "$1"
	git archive "$revision" | tar -x -C "$1"
	(cd "$1/hack/release" && GOWORK=off "${GO:-go}" run . release --version="$VERSION" --revision="$revision" \
		--base-url="${BASE_URL:-https://example.com/$VERSION}" ${PLATFORMS:+"--platforms=$PLATFORMS"} --output="$1/dist" >/dev/null)
	(cd "$1/dist" && sha256sum --check --quiet SHA256SUMS)
	echo "built the release after $SECONDS s"
}

build "$work/first"
GOCACHE=$work/cache build "$work/a/directory/at/another/depth"
if ! diff -r "$work/first/dist" "$work/a/directory/at/another/depth/dist"; then
	echo 'the two releases differ' >&2
	exit 1
fi
cat "$work/first/dist/SHA256SUMS"
echo "both releases are the same"
