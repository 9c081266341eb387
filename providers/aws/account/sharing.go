package account

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// A ClusterProviderConfig has the credentials for the managed resources of several namespaces. What they may
// do with them is decided here, from values alone.

// sharing is what a configuration allows the managed resources of one namespace.
type sharing struct {
	// Config describes the configuration; empty for a namespace's own, and for cluster-scoped managed resources, which
	// it does not restrict.
	Config string
	// Types are patterns of the allowed types; nil for all.
	Types []string
	Allow []v1alpha1.Allowance
	// Denied is why the namespace is not allowed to use the configuration, for a managed resource that is being
	// deleted: what it owns is still deleted with it, and nothing else.
	Denied string
}

func (s sharing) allows(a v1alpha1.Allowance) bool {
	return s.Config == "" || slices.Contains(s.Allow, v1alpha1.AllowEverything) || slices.Contains(s.Allow, a)
}

func (s sharing) checkType(typeName string) error {
	if s.Config == "" || s.Types == nil || slices.ContainsFunc(s.Types, func(pattern string) bool { return matches(pattern, typeName) }) {
		return nil
	}
	return &external.NotAllowedError{Message: fmt.Sprintf("spec.providerConfigRef: spec.allowedTypes of %s does not have %s. "+
		"Refer to another configuration, or have an administrator add the type", s.Config, typeName)}
}

// The pattern is a name, or all types of a service, such as AWS::EC2::*.
func matches(pattern, typeName string) bool {
	prefix, isPattern := strings.CutSuffix(pattern, "*")
	return pattern == typeName || isPattern && strings.HasPrefix(typeName, prefix)
}

func (s sharing) adoptionDenied() string {
	if s.Denied != "" {
		return s.Denied
	}
	if s.allows(v1alpha1.AllowForeignResources) {
		return ""
	}
	return fmt.Sprintf("no managed resource of the namespace has created it, and %s does not allow %s. Have an administrator add %[2]s to spec.allow of the configuration",
		s.Config, v1alpha1.AllowForeignResources)
}

// checkNamespace returns an error unless the managed resources of a namespace may use the configuration.
func checkNamespace(config, namespace string, allowed *v1alpha1.AllowedNamespaces, namespaceLabels map[string]string) error {
	if allowed == nil || slices.Contains(allowed.Names, namespace) {
		return nil
	}
	if allowed.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		if err != nil {
			return fmt.Errorf("%s: spec.allowedNamespaces.selector: %w", config, err)
		}
		if selector.Matches(labels.Set(namespaceLabels)) {
			return nil
		}
	}
	return &external.NotAllowedError{Message: fmt.Sprintf("%s: spec.allowedNamespaces has neither the name nor the labels of namespace %s. Refer to another configuration in spec.providerConfigRef, "+
		"or have an administrator allow the namespace", config, namespace)}
}
