package patchandtransform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

// secretResource is the resource name of the Secret with a composite's connection details. It begins with the
// composite's name, so it doesn't collide with the names of an author's resources.
func secretResource(composite map[string]any) string {
	return stringOf(metadataField(composite, "name")) + "-connection-secret"
}

// extractDetails returns the connection details of a template's observed resource. Missing
// ones are skipped: they may appear later.
func extractDetails(observed call.Resource, details []connectionDetail) map[string][]byte {
	out := map[string][]byte{}
	for _, d := range details {
		switch d.Type {
		case "FromValue":
			out[d.Name] = []byte(*d.Value)
		case "FromConnectionSecretKey":
			if data := observed.ConnectionDetails[*d.FromConnectionSecretKey]; data != nil {
				out[d.Name] = data
			}
		case "FromFieldPath":
			value, err := fieldpath.Get(observed.Object, *d.FromFieldPath)
			if err != nil {
				continue
			}
			if text, ok := value.(string); ok {
				out[d.Name] = []byte(text)
			} else if data, err := json.Marshal(value); err == nil {
				out[d.Name] = data
			}
		}
	}
	return out
}

// publishDetails adds the connection details of this step to the composite's. A composite
// with spec.crossplane has no connection Secret of its own: for it, all connection details,
// including those of earlier functions, become a composed Secret.
func (r *renderState) publishDetails() error {
	composite := &r.Desired.Composite
	if composite.ConnectionDetails == nil && len(r.details) > 0 {
		composite.ConnectionDetails = map[string][]byte{}
	}
	maps.Copy(composite.ConnectionDetails, r.details)
	_, err := fieldpath.Get(r.Observed.Composite.Object, "spec.crossplane")
	if publishes := err != nil; publishes || len(composite.ConnectionDetails) == 0 {
		return nil
	}
	at, err := r.secretRef()
	if err != nil {
		return err
	}
	data := map[string]any{}
	for key, value := range composite.ConnectionDetails {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "connection.crossplane.io/v1alpha1", "data": data,
	}
	setMetadataField(secret, "name", at["name"])
	setMetadataField(secret, "namespace", at["namespace"])
	r.Desired.Resources[secretResource(r.Observed.Composite.Object)] = call.Resource{Object: secret, Ready: call.True}
	return nil
}

// secretRef is the name and namespace of the Secret: the composite's, or else the input's,
// or else ones derived from the composite. The input's patches override them, unless the
// value that they read is missing or not a string.
func (r *renderState) secretRef() (map[string]any, error) {
	xr, wanted := r.Observed.Composite.Object, r.in.WriteConnectionSecretToRef
	base := secretBase(xr, wanted)
	if wanted == nil {
		return base, nil
	}
	ref := maps.Clone(base)
	for i := range wanted.Patches {
		p := &wanted.Patches[i]
		err := p.apply(xr, ref)
		if err != nil && (p.typeOrDefault() != fromComposite || p.Policy.required()) {
			return nil, fmt.Errorf("cannot apply patch type %s at index %d: %w", p.typeOrDefault(), i, err)
		}
	}
	for _, field := range []string{"name", "namespace"} {
		if _, ok := ref[field].(string); !ok {
			r.warn("writeConnectionSecretToRef.patches: %s must be a string; the Secret keeps %q", field, base[field])
			ref[field] = base[field]
		}
	}
	return ref, nil
}

// secretBase is what the Secret's patches start from.
func secretBase(xr map[string]any, wanted *connectionSecret) map[string]any {
	if ref, err := fieldpath.Get(xr, "spec.writeConnectionSecretToRef"); err == nil && ref != nil {
		name, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.name")
		namespace, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.namespace")
		return map[string]any{"name": stringOf(name), "namespace": stringOf(namespace)}
	}
	if wanted != nil && (wanted.Name != "" || wanted.Namespace != "") {
		return map[string]any{"name": wanted.Name, "namespace": wanted.Namespace}
	}
	return map[string]any{"name": stringOf(metadataField(xr, "name")) + "-connection", "namespace": stringOf(metadataField(xr, "namespace"))}
}
