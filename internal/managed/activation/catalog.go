package activation

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Catalog is the catalog of a provider, with the kinds that were opened. CustomResourceDefinitions
// are not kept: the API server has them. It is not safe for concurrent use.
type Catalog struct {
	managed.Catalog
	Provider string

	kinds   map[plan.Key]*openedKind
	digests map[digestKey]string
}

type openedKind struct {
	managed managed.Kind
	kind    plan.Kind
	err     error
}

type digestKey struct {
	plan.Key
	activation string
}

// Kind returns the kind of a key.
func (c *Catalog) Kind(key plan.Key) (plan.Kind, error) {
	k := c.opened(key)
	return k.kind, k.err
}

func (c *Catalog) opened(key plan.Key) *openedKind {
	if k := c.kinds[key]; k != nil {
		return k
	}
	kind, definition, err := c.Open(key.Type, key.ClusterScoped)
	k := &openedKind{err: err}
	if err == nil {
		k.managed, k.kind = kind, plan.Kind{GVK: kind.Port().GVK, CRD: definition.Name}
	}
	if c.kinds == nil {
		c.kinds = map[plan.Key]*openedKind{}
	}
	c.kinds[key] = k
	return k
}

func (c *Catalog) configuration(key plan.Key, activation string) (*unstructured.Unstructured, error) {
	_, definition, err := c.Open(key.Type, key.ClusterScoped)
	if err != nil {
		return nil, err
	}
	definition.APIVersion, definition.Kind = crd.Kind.GroupVersion().String(), crd.Kind.Kind
	metav1.SetMetaDataLabel(&definition.ObjectMeta, resource.CatalogLabel, c.Provider)
	metav1.SetMetaDataAnnotation(&definition.ObjectMeta, resource.ActivationAnnotation, activation)
	return install.Configuration(definition)
}

// It is empty if the type cannot be served.
func (c *Catalog) digest(key plan.Key, activation string) string {
	at := digestKey{key, activation}
	if known, ok := c.digests[at]; ok {
		return known
	}
	digest := ""
	if wanted, err := c.configuration(key, activation); err == nil {
		digest = wanted.GetAnnotations()[v1alpha1.AppliedAnnotation]
	}
	if c.digests == nil {
		c.digests = map[digestKey]string{}
	}
	c.digests[at] = digest
	return digest
}

func (c *Catalog) forget(used func(plan.Key) bool) {
	for key := range c.kinds {
		if !used(key) {
			delete(c.kinds, key)
		}
	}
	for key := range c.digests {
		if !used(key.Key) {
			delete(c.digests, key)
		}
	}
}

// IsOf reports whether a provider has installed a CustomResourceDefinition for its catalog.
func IsOf(provider string, c *apiextensionsv1.CustomResourceDefinition) bool {
	return c.Labels[resource.CatalogLabel] == provider
}
