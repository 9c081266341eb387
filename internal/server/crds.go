package server

import (
	"context"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
)

func listWatch(
	list func(context.Context, metav1.ListOptions) (*apiextensionsv1.CustomResourceDefinitionList, error),
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error),
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: watch,
	}
}

// slim drops from a CustomResourceDefinition what only people read.
func slim(o any) (any, error) {
	crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return o, nil
	}
	delete(crd.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if _, ours := crd.Labels[v1alpha1.OwnedLabel]; ours {
		return crd, nil // all of it is ours to compare
	}
	crd.ManagedFields = nil
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			wordless(s.OpenAPIV3Schema)
		}
	}
	return crd, nil
}

func wordless(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, p := range s.Properties {
		wordless(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		wordless(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		wordless(s.AdditionalProperties.Schema)
	}
}

// install applies the CustomResourceDefinitions of the dialect's own kinds,
// where they aren't as they should be.
func (c *Controllers) install(ctx context.Context) error {
	return fs.WalkDir(v1alpha1.CRDs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := v1alpha1.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		wanted := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &wanted.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return c.installOne(ctx, wanted)
	})
}

func (c *Controllers) installOne(ctx context.Context, wanted *unstructured.Unstructured) error {
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AppliedAnnotation] = object.Digest(wanted.Object)
	wanted.SetAnnotations(annotations)
	known, exists, err := c.crds.GetStore().GetByKey(wanted.GetName())
	if err != nil {
		return err
	}
	if !exists {
		_, err := c.client.Create(ctx, wanted, v1alpha1.InstanceManager)
		if err != nil && !cluster.IsTaken(err) {
			return fmt.Errorf("install %s: %w", wanted.GetName(), err)
		}
		return nil
	}
	current, _ := known.(*apiextensionsv1.CustomResourceDefinition)
	if current.Annotations[v1alpha1.AppliedAnnotation] == annotations[v1alpha1.AppliedAnnotation] {
		return nil
	}
	if _, err := c.client.Update(ctx, wanted, current.UID, v1alpha1.InstanceManager); err != nil {
		return fmt.Errorf("update %s: %w", wanted.GetName(), err)
	}
	return nil
}
