// Command espalier-controlplane serves a whole Kubernetes API from one process: etcd, kube-apiserver,
// and the two controllers without which deletion would not end, those of garbage collection and of
// namespaces. It runs no workloads; it keeps objects.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "espalier-controlplane:", err)
		os.Exit(1)
	}
}
