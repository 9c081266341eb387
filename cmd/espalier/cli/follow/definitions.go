package follow

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe"
)

// definitions caches the definitions of instances' kinds. Each is read once; one that cannot be
// read is nil, since a tree is shown also without permission to read definitions.
type definitions map[types.NamespacedName]*unstructured.Unstructured

// read reads the definition of an instance's kind, unless it was tried before.
func (d definitions) read(ctx context.Context, c *Cluster, instance *unstructured.Unstructured) {
	name, ok := observe.DefinitionOf(instance)
	if _, tried := d[name]; !ok || tried {
		return
	}
	resource := v1alpha1.GroupVersion.WithResource("resourcegraphdefinitions")
	if name.Namespace != "" {
		resource = v1alpha1.GroupVersion.WithResource("resourcegroups")
	}
	found, err := c.Client.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		found = nil
	}
	d[name] = found
}
