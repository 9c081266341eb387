#!/usr/bin/env bash
# Runs a command with a new API server and its kubeconfig in ESPALIER_TEST_KUBECONFIG, and stops the server afterwards.
# The server's standard input is a pipe of this script, so that it also ends if the script is killed.
set -euo pipefail
cd "$(dirname "$0")/.."

data=$(mktemp -d "${TMPDIR:-/tmp}/espalier-test.XXXXXX")
coproc plane {
	exec bin/espalier-controlplane --data-dir "$data/plane" --fsync=false --parent-watch 2>"$data/stderr"
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
	echo "the API server did not start; its output:" >&2
	cat "$data/stderr" >&2
	tail -n 20 "$data/plane/controlplane.log" >&2 || true
	exit 1
fi
echo "API server for the tests: $url"
ESPALIER_TEST_THROWAWAY=1 ESPALIER_TEST_KUBECONFIG=$data/plane/kubeconfig "$@"
