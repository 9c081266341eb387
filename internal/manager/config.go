package manager

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig is which kubeconfig file is meant, and which context of it; both may be empty.
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

// Config is how to reach the cluster: that of the kubeconfig or, in a pod without one, the pod's own.
func (k Kubeconfig) Config() (*rest.Config, error) {
	config, err := k.Loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("which cluster? There is no kubeconfig at %s, and this is no pod: name one with --kubeconfig or the variable KUBECONFIG; 'espalier up' starts a control plane and prints where its kubeconfig is",
			strings.Join(k.rules().GetLoadingPrecedence(), " or "))
	}
	if err != nil {
		return nil, fmt.Errorf("which cluster? %w", err)
	}
	return config, nil
}
