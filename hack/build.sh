#!/usr/bin/env bash
# Builds programs into bin/ (espalier, espalier-controlplane, kubectl, espalier-provider-aws, aws-testcloud), and prints the progress: the first build
# compiles a Kubernetes API server. One call with several programs is faster than several calls.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}

# Each program is built with its own go.mod, without the workspace.
export GOWORK=off

# A compiler process ends after a second: garbage collection in it is wasted time.
export GOGC=${GOGC:-400}

# show_progress counts the packages in the output of go build -v, and prints its other lines.
show_progress() {
	local line packages=0 fetched=0
	while IFS= read -r line; do
		case $line in
		'go: downloading '*)
			fetched=$((fetched + 1))
			if [ $((fetched % 50)) = 0 ]; then echo "  $fetched modules downloaded, $SECONDS s"; fi
			;;
		*[!a-zA-Z0-9._/~-]*) printf '%s\n' "$line" >&2 ;;
		*)
			packages=$((packages + 1))
			if [ "$packages" = 20 ]; then
				echo "  Nothing is cached yet: this takes some minutes. Later builds take seconds."
			fi
			if [ $((packages % 250)) = 0 ]; then echo "  $packages packages compiled, $SECONDS s"; fi
			;;
		esac
	done
}

# build_espalier compiles the program, and links it in the background: the linker uses one core only.
build_espalier() {
	echo "Building bin/espalier"
	$go build -C cmd/espalier -v ./cli 2>&1 | show_progress
	$go build -C cmd/espalier -ldflags="-s -w" -o ../../bin/espalier . &
	linker=$!
}

# build_kubernetes PROGRAM [FLAG…] builds a program that contains Kubernetes. The linker sets its version, which the server
# reports to clients.
build_kubernetes() {
	local version minor base=k8s.io/component-base/version
	version=$($go list -C controlplane -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${version#v1.}
	$go build -C controlplane -v -ldflags "-s -w -X $base.gitVersion=$version -X $base.gitMajor=1 -X $base.gitMinor=${minor%%.*}" \
		-o "../bin/$1" "${@:2}" "./cmd/$1" 2>&1 | show_progress
}

# The modules of the other programs are downloaded while the first one is compiled. The output is discarded: the build
# reports errors again.
fetcher=
if [ $# -gt 1 ]; then
	for program in "${@:2}"; do
		case $program in
		espalier-controlplane | kubectl) $go list -C controlplane -deps "./cmd/$program" ;;
		esac
	done >/dev/null 2>&1 &
	fetcher=$!
fi

linker=
for program in "$@"; do
	case $program in
	espalier)
		build_espalier
		;;
	espalier-controlplane)
		if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
			echo "Building bin/$program, for etcd and kube-apiserver in $KUBEBUILDER_ASSETS"
			build_kubernetes "$program" -tags=assets
		else
			echo "Building bin/$program, a Kubernetes API server with etcd"
			build_kubernetes "$program"
		fi
		;;
	kubectl)
		echo "Building bin/kubectl"
		build_kubernetes "$program"
		;;
	espalier-provider-aws)
		echo "Building bin/$program, espalier with AWS's SDK"
		$go build -C cmd/espalier -v -ldflags="-s -w" -o "../../bin/$program" "./$program" 2>&1 | show_progress
		;;
	aws-testcloud)
		echo "Building bin/$program, AWS's APIs for tests and the demo"
		$go build -C providers/aws -v -ldflags="-s -w" -o "../../bin/$program" ./testkit/awscloud/testcloud 2>&1 | show_progress
		;;
	*)
		echo "unknown program: $program" >&2
		exit 2
		;;
	esac
done
if [ -n "$linker" ]; then wait "$linker"; fi
if [ -n "$fetcher" ]; then wait "$fetcher" || true; fi
