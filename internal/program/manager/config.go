package manager

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig selects a kubeconfig file and a context of it; both may be empty.
type Kubeconfig struct{ Path, Context string }

func (k Kubeconfig) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Path
	return rules
}

// Loader reads the kubeconfig as kubectl does.
func (k Kubeconfig) Loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules(), &clientcmd.ConfigOverrides{CurrentContext: k.Context})
}

// Config returns the configuration of the kubeconfig or, in a pod without one, of the pod's
// service account.
func (k Kubeconfig) Config() (*rest.Config, error) {
	config, err := k.Loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no cluster configured: no kubeconfig at %s, and not running in a pod; set --kubeconfig or the variable KUBECONFIG, or start a control plane with 'espalier up', which prints the path of its kubeconfig",
			strings.Join(k.rules().GetLoadingPrecedence(), " or "))
	}
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	return config, nil
}
