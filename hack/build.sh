#!/usr/bin/env bash
# Builds programs into bin/, each named by its target (espalier, espalier-controlplane, kubectl), and says how far it
# is: the first build compiles a Kubernetes API server.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}

# Each program is what its own go.mod says, and not the workspace.
export GOWORK=off

# A compiler lives for a second: what it would collect goes with it.
export GOGC=${GOGC:-400}

# compiling MINUTES counts the packages that go build -v names, and passes on what else it prints. MINUTES is how long
# the program takes with an empty cache.
compiling() {
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
				echo "  Nothing is cached yet: two cores take about $1 minutes for this program. Later builds take seconds."
			fi
			if [ $((packages % 250)) = 0 ]; then echo "  $packages packages compiled, $SECONDS s"; fi
			;;
		esac
	done
}

for program in "$@"; do
	case $program in
	espalier)
		echo "Building bin/espalier"
		$go build -C cmd/espalier -v -ldflags=-w -o ../../bin/espalier . 2>&1 | compiling two
		;;
	espalier-controlplane | kubectl)
		[ "$program" = kubectl ] && echo "Building bin/kubectl" || echo "Building bin/$program, a Kubernetes API server with etcd"
		cd controlplane
		# Kubernetes learns its version from the linker; clients ask the server for it.
		version=$($go list -m -f '{{.Version}}' k8s.io/kubernetes)
		minor=${version#v1.}
		base=k8s.io/component-base/version
		$go build -v -ldflags "-w -X $base.gitVersion=$version -X $base.gitMajor=1 -X $base.gitMinor=${minor%%.*}" \
			-o "../bin/$program" "./cmd/$program" 2>&1 | compiling three
		cd ..
		;;
	*)
		echo "unknown program: $program" >&2
		exit 2
		;;
	esac
done
