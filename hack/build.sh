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

tags=

# show_downloads counts the modules that the Go tool downloads, and prints its other lines.
show_downloads() {
	local line fetched=0
	while IFS= read -r line; do
		case $line in
		'go: downloading '*)
			fetched=$((fetched + 1))
			if [ $((fetched % 50)) = 0 ]; then echo "  $fetched modules downloaded, $SECONDS s"; fi
			;;
		*) printf '%s\n' "$line" ;;
		esac
	done
}

# compile MODULE PACKAGE [FLAG…] builds a package with $tags, prints how much of it is done, and passes on what else go build
# prints.
compile() {
	local module=$1 package=$2 total packages=0 line
	shift 2
	total=$($go list -C "$module" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' ${tags:+"$tags"} "$package" 2> >(show_downloads >&2) | wc -l)
	if [ "$total" -ge 100 ]; then echo "  $total packages are not in the cache: this takes minutes. Later builds take seconds."; fi
	$go build -C "$module" -v ${tags:+"$tags"} "$@" "$package" 2>&1 | while IFS= read -r line; do
		case $line in
		*[!a-zA-Z0-9._/~-]*) printf '%s\n' "$line" >&2 ;;
		*)
			packages=$((packages + 1))
			if [ "$total" -ge 100 ] && [ $((packages % (total / 10))) = 0 ]; then
				echo "  $packages of $total packages compiled, $SECONDS s"
			fi
			;;
		esac
	done
}

# build_espalier compiles the program, and links it in the background: the linker uses one core only.
build_espalier() {
	echo "Building bin/espalier"
	compile cmd/espalier ./cli
	$go build -C cmd/espalier -ldflags="-s -w" -o ../../bin/espalier . &
	linker=$!
}

# build_kubernetes PROGRAM builds a program that contains Kubernetes. The linker sets its version, which the server
# reports to clients.
build_kubernetes() {
	local program=$1 version minor base=k8s.io/component-base/version
	version=$($go list -C controlplane -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${version#v1.}
	compile controlplane "./cmd/$program" -ldflags "-s -w -X $base.gitVersion=$version -X $base.gitMajor=1 -X $base.gitMinor=${minor%%.*}" \
		-o "../bin/$program"
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
			tags=-tags=assets build_kubernetes "$program"
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
		compile cmd/espalier "./$program" -ldflags="-s -w" -o "../../bin/$program"
		;;
	aws-testcloud)
		echo "Building bin/$program, AWS's APIs for tests and the demo"
		compile providers/aws ./testkit/awscloud/testcloud -ldflags="-s -w" -o "../../bin/$program"
		;;
	*)
		echo "unknown program: $program" >&2
		exit 2
		;;
	esac
done
if [ -n "$linker" ]; then wait "$linker"; fi
if [ -n "$fetcher" ]; then wait "$fetcher" || true; fi
