// Command generate writes the archive of built-in kinds, from the API server of ESPALIER_TEST_KUBECONFIG.
package main

import (
	"log"
	"os"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/kube/builtin/snapshot"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(to string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("ESPALIER_TEST_KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	files, err := snapshot.Read(client)
	if err != nil {
		return err
	}
	return os.WriteFile(to, snapshot.Pack(files), 0o600)
}
