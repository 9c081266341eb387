#!/usr/bin/env bash
# Runs a command with ESPALIER_TEST_KUBECONFIG naming a fresh API server, and stops the server afterwards.
# The server reads from a pipe that only this script holds, so it ends with the script even if that is killed.
set -euo pipefail
cd "$(dirname "$0")/.."

data=$(mktemp -d "${TMPDIR:-/tmp}/espalier-test.XXXXXX")
coproc plane {
	GOGC=${GOGC:-200} exec bin/espalier-controlplane --data-dir "$data/plane" --fsync=false --parent-watch 2>"$data/stderr"
}
pid=$plane_PID

finish() {
	status=$?
	kill "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
	rm -rf "$data"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

if ! read -r -t 120 state url <&"${plane[0]}" || [ "$state" != ready ]; then
	echo "the API server did not start:" >&2
	cat "$data/stderr" >&2
	tail -n 20 "$data/plane/controlplane.log" >&2 || true
	exit 1
fi
echo "API server for the tests: $url"
ESPALIER_TEST_THROWAWAY=1 ESPALIER_TEST_KUBECONFIG=$data/plane/kubeconfig "$@"
