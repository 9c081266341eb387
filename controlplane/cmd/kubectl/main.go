// Command kubectl is the ordinary kubectl, built from the same sources as the control plane, so
// that examples and tests need no other installation.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits with its code
		os.Exit(1)
	}
}
