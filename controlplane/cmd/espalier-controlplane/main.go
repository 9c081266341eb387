// Command espalier-controlplane serves a whole Kubernetes API from one process: etcd, kube-apiserver,
// and three controllers of Kubernetes: the garbage collector, the namespace controller, and the aggregation of ClusterRoles.
// It stores objects and runs no workloads.
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
