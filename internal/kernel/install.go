package kernel

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
)

// Install applies CustomResourceDefinitions, where they aren't as they should be. It
// is for what Run begins with.
func (k *Kernel) Install(ctx context.Context, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		wanted := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &wanted.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return k.installOne(ctx, wanted)
	})
}

// installOne applies one of them. One that somebody else has put there is left
// alone: another controller of the dialect may rely on what its own says.
func (k *Kernel) installOne(ctx context.Context, wanted *unstructured.Unstructured) error {
	inventory.Sign(wanted, "")
	current, exists := k.CRDs.Get(wanted.GetName())
	if !exists {
		_, err := k.Client.Create(ctx, wanted, v1alpha1.InstanceManager)
		if err != nil && !cluster.IsTaken(err) {
			return fmt.Errorf("install %s: %w", wanted.GetName(), err)
		}
		return nil
	}
	signature, ours := current.Annotations[v1alpha1.AppliedAnnotation]
	if !ours {
		return k.putUpWith(current, wanted)
	}
	if signature == inventory.Applied(wanted) {
		return nil
	}
	if _, err := k.Client.Update(ctx, wanted, current.UID, v1alpha1.InstanceManager); err != nil {
		return fmt.Errorf("update %s: %w", wanted.GetName(), err)
	}
	return nil
}

// putUpWith goes on with a CustomResourceDefinition of somebody else's, if it
// serves the version that is needed. The log tells which fields it lacks: what is
// written into these is dropped by the API server.
func (k *Kernel) putUpWith(current *apiextensionsv1.CustomResourceDefinition, u *unstructured.Unstructured) error {
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
	k.options.Log.Info("the CustomResourceDefinition exists already and is not ours; it is left as it is", "name", current.Name, "fieldsThatItLacks", lacking)
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
