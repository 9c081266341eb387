#!/usr/bin/env bash
# Runs the tests of all modules and ends with a summary. Arguments go to each `go test`.
# With ESPALIER_TEST_FULL set, sweeps are as large as they get and the race detector watches everything but them.
set -uo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
# All modules but the control plane are tested side by side, as one workspace; "work" is its packages.
export GOWORK=$PWD/go.work
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

# Tests make much and keep little: with twice the garbage they, and the compiler, do a third of the collecting.
export GOGC=${GOGC:-200}

# run ARGUMENTS: one go test, whose output is kept for the summary. Tests on a server wait for it more than they work,
# so more of them run side by side than there are processors.
run() {
	$go test -timeout=60m "$@" 2>&1 | { grep -v -e '\[no test files\]' -e '\[no tests to run\]' || true; } | tee -a "$out"
}

# Those that take longest begin first, so that nothing is left alone at the end.
slow=(./test/watches ./test/deletion ./test/backup ./test/crash ./test/costs ./test/creation ./test/identity ./test/definitions ./test/status ./test/providers/...)
if [ -n "${ESPALIER_TEST_FULL:-}" ]; then
	run ${race:+"$race"} -p=3 -parallel=6 -skip='^TestSweep' "$@" "${slow[@]}" work || status=1
	# Sweeps do hundreds of times what the other tests do once. The race detector finds no more in them, and they take a
	# third of the time without it.
	run -run='^TestSweep' "$@" ./test/crash ./test/creation ./test/... || status=1
else
	# The race detector watches what has goroutines of its own.
	run ${race:+"$race"} -short "$@" ./internal/kube/watch ./internal/kube/queue ./internal/composition/pipeline/... ./internal/manager ./internal/manager/cluster ./internal/manager/introspect ./internal/telemetry || status=1
	run -p=4 -parallel=8 "$@" "${slow[@]}" work || status=1
fi
# The control plane's own code is small and what it links is not: compiling that for the race detector takes longer
# than all tests together.
(cd controlplane && GOWORK=off run "$@" ./...) || status=1

count() { grep -cE "$1" "$out"; }
echo
echo "packages: $(count '^ok ') ok, $(count '^FAIL[[:space:]]') failed; $((SECONDS - begin)) s"
[ -f "$ESPALIER_TEST_SUMMARY" ] && cat "$ESPALIER_TEST_SUMMARY"
grep -E '^(FAIL[[:space:]]|--- FAIL)' "$out"
[ "$status" = 0 ] && echo PASS || echo FAIL
exit "$status"
