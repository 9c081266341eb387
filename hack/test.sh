#!/usr/bin/env bash
# Runs the tests of both modules and ends with a summary. Arguments go to both `go test`s.
set -uo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
race=-race
if [ "$($go env CGO_ENABLED)" != 1 ] || ! command -v "$($go env CC)" >/dev/null; then
	echo "no C compiler: testing WITHOUT the race detector" >&2
	race=
fi

out=$(mktemp)
export ESPALIER_TEST_SUMMARY=$out.summary
trap 'rm -f "$out" "$ESPALIER_TEST_SUMMARY"' EXIT
status=0
begin=$SECONDS
# Those that take longest begin first, so that nothing is left alone at the end.
packages=(./test/deletion ./test/churn ./test/export ./test/postgresql/... ./test/integration ./...)
$go test ${race:+"$race"} -timeout=30m -skip='^TestSweep' "$@" "${packages[@]}" 2>&1 | tee -a "$out" || status=1
# Sweeps live hundreds of lives of what the other tests live one of. The race detector sees
# no more in them, and they take a third of the time without it.
$go test -timeout=30m -run='^TestSweep' "$@" ./test/sweep ./test/external ./test/... 2>&1 | grep -v '\[no tests to run\]' | tee -a "$out" || status=1
# The control plane's own code is small and what it links is not: compiling that for the race detector takes longer
# than all tests together.
(cd controlplane && $go test -timeout=10m "$@" ./...) 2>&1 | tee -a "$out" || status=1

count() { grep -cE "$1" "$out"; }
echo
echo "packages: $(count '^ok ') ok, $(count '^FAIL[[:space:]]') failed, $(count 'no test files') without tests; $((SECONDS - begin)) s"
[ -f "$ESPALIER_TEST_SUMMARY" ] && cat "$ESPALIER_TEST_SUMMARY"
grep -E '^(FAIL[[:space:]]|--- FAIL)' "$out"
[ "$status" = 0 ] && echo PASS || echo FAIL
exit "$status"
