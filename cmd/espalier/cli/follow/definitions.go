package follow

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/observe"
)

// definitions are those of instances' kinds, each read once: a tree is for people who
// may not be allowed to read them, and does without.
type definitions map[types.NamespacedName]*unstructured.Unstructured

// read reads the definition of an instance's kind, unless that has been tried.
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
