#!/usr/bin/env bash
# Runs the tests of all modules and prints a summary. Arguments are passed to each `go test`.
# With ESPALIER_TEST_FULL set, sweeps are complete, and everything but the sweeps runs with the race detector.
set -uo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
# All modules but the control plane and the release are tested as one workspace; "work" stands for its packages.
export GOWORK=$PWD/go.work
race=-race
if ! command -v "$(CGO_ENABLED=1 $go env CC)" >/dev/null; then
	echo "no C compiler: testing WITHOUT the race detector" >&2
	race=
fi

out=$(mktemp)
export ESPALIER_TEST_SUMMARY=$out.summary ESPALIER_TEST_INSTALLATION=$out.installation
trap 'rm -f "$out" "$out.skipped" "$out.program" "$ESPALIER_TEST_INSTALLATION" "$ESPALIER_TEST_SUMMARY"' EXIT
status=0
begin=$SECONDS

# Tests and the compiler allocate much and keep little: with this they do a third of the garbage collection.
export GOGC=${GOGC:-200}

# go test does not tell which tests were skipped.
if ! $go build -o "$out.program" ./hack/testoutput; then
	echo "hack/testoutput cannot be built" >&2
	exit 1
fi

# run ARGUMENTS runs go test, and keeps the output for the summary. Tests mostly wait for the server, so more of them
# run in parallel than there are processors.
run() {
	case " $* " in *' -race '*) local -x CGO_ENABLED=1 ;; esac
	$go test -json -timeout=60m "$@" 2>&1 | "$out.program" "${skipped:-$out.skipped}" | { grep -v -e '\[no test files\]' -e '\[no tests to run\]' || true; } | tee -a "$out"
}

# The controllers that black-box tests share run as the service account of an installation, with exactly its roles.
if ! $go run ./cmd/espalier install --image espalier >"$ESPALIER_TEST_INSTALLATION"; then
	echo "espalier install failed" >&2
	exit 1
fi

# The slowest packages start first, so that none of them runs alone at the end.
slow=(./test/image ./test/watches ./test/deletion ./test/backup ./test/crash ./test/commands ./test/costs ./test/creation ./test/identity ./test/definitions ./test/status ./test/installations ./test/providers/...)
if [ -n "${ESPALIER_TEST_FULL:-}" ]; then
	run ${race:+"$race"} -p=3 -parallel=6 -skip='^TestSweep' "$@" "${slow[@]}" work || status=1
	# Sweeps repeat what the other tests do once. The race detector finds nothing more in them, and triples their time.
	run -run='^TestSweep' "$@" ./test/crash ./test/creation ./test/... || status=1
else
	# The race detector only runs for packages that start goroutines. What -short skips of them runs below.
	skipped=/dev/null run ${race:+"$race"} -short "$@" ./internal/kube/watch ./internal/kube/queue ./internal/composition/pipeline/... ./internal/program/manager ./internal/serving/cluster ./internal/program/manager/introspect ./internal/telemetry || status=1
	run -p=4 -parallel=8 "$@" "${slow[@]}" work || status=1
fi
# The control plane is tested without the race detector: compiling its dependencies for it takes longer than all tests.
for module in controlplane hack/release; do
	(cd "$module" && GOWORK=off run "$@" ./...) || status=1
done

count() { grep -cE "$1" "$out"; }
echo
echo "packages: $(count '^ok ') ok, $(count '^FAIL[[:space:]]') failed; $((SECONDS - begin)) s"
[ -f "$ESPALIER_TEST_SUMMARY" ] && cat "$ESPALIER_TEST_SUMMARY"
if [ -f "$out.skipped" ]; then
	echo "skipped: $(wc -l <"$out.skipped")"
	sed 's/^/  /' "$out.skipped"
fi
grep -E '^(FAIL[[:space:]]|--- FAIL)' "$out"
[ "$status" = 0 ] && echo PASS || echo FAIL
exit "$status"
