package server

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
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

// installOne applies one of them. One that somebody else has put there is left
// alone: another controller of the dialect may rely on what its own says.
func (c *Controllers) installOne(ctx context.Context, wanted *unstructured.Unstructured) error {
	inventory.Sign(wanted, "")
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
	signature, ours := current.Annotations[v1alpha1.AppliedAnnotation]
	if !ours {
		return c.putUpWith(current, wanted)
	}
	if signature == inventory.Applied(wanted) {
		return nil
	}
	if _, err := c.client.Update(ctx, wanted, current.UID, v1alpha1.InstanceManager); err != nil {
		return fmt.Errorf("update %s: %w", wanted.GetName(), err)
	}
	return nil
}

// putUpWith goes on with a CustomResourceDefinition of somebody else's, if it
// serves the version that is needed. The log tells which fields it lacks: what is
// written into these is dropped by the API server.
func (c *Controllers) putUpWith(current *apiextensionsv1.CustomResourceDefinition, u *unstructured.Unstructured) error {
	var wanted apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &wanted); err != nil {
		return fmt.Errorf("decode %s: %w", u.GetName(), err)
	}
	var lacking []string
	for _, w := range wanted.Spec.Versions {
		i := slices.IndexFunc(current.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == w.Name && v.Served && v.Schema != nil
		})
		if i < 0 {
			return fmt.Errorf("CustomResourceDefinition %s exists already, is not ours and does not serve %s", current.Name, w.Name)
		}
		lacking = append(lacking, lacks(current.Spec.Versions[i].Schema.OpenAPIV3Schema, w.Schema.OpenAPIV3Schema, "")...)
	}
	c.options.Log.Info("the CustomResourceDefinition exists already and is not ours; it is left as it is", "name", current.Name, "fieldsThatItLacks", lacking)
	return nil
}

// lacks lists, sorted, the fields that a schema has not and another has.
func lacks(has, wants *apiextensionsv1.JSONSchemaProps, at string) []string {
	if has == nil || wants == nil || has.XPreserveUnknownFields != nil && *has.XPreserveUnknownFields {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(wants.Properties)) {
		here, want := at+"."+name, wants.Properties[name]
		if got, ok := has.Properties[name]; ok {
			out = append(out, lacks(&got, &want, here)...)
		} else {
			out = append(out, here)
		}
	}
	if has.Items != nil && wants.Items != nil {
		out = append(out, lacks(has.Items.Schema, wants.Items.Schema, at+"[]")...)
	}
	return out
}
