package patchandtransform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// secretResource is the name in the composition of the Secret that holds a composite's
// connection details. It begins with the composite's own name, so that it isn't one that
// an author has given to a resource of the composition.
func secretResource(composite map[string]any) string {
	return text(named(composite, "name")) + "-connection-secret"
}

// details returns what a template tells of its observed resource. A detail that is not
// there is left out: it may come.
func details(observed call.Resource, wanted []connectionDetail) map[string][]byte {
	out := map[string][]byte{}
	for _, d := range wanted {
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

// publishDetails adds the connection details of this step to the composite's. One that has
// spec.crossplane can't publish any itself: for it, all of them, also those of the functions
// before this one, are a Secret that is composed.
func (r *rendering) publishDetails() error {
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
	place(secret, "name", at["name"])
	place(secret, "namespace", at["namespace"])
	r.Desired.Resources[secretResource(r.Observed.Composite.Object)] = call.Resource{Object: secret, Ready: call.True}
	return nil
}

// secretRef is where the Secret belongs: where the composite says, or else the input, or
// else beside the composite; patches have the last word, unless the value that they read
// is not there or is no text.
func (r *rendering) secretRef() (map[string]any, error) {
	xr, wanted := r.Observed.Composite.Object, r.in.WriteConnectionSecretToRef
	base := secretBase(xr, wanted)
	if wanted == nil {
		return base, nil
	}
	ref := maps.Clone(base)
	for i := range wanted.Patches {
		p := &wanted.Patches[i]
		err := p.apply(xr, ref)
		if err != nil && (p.kind() != fromComposite || p.Policy.required()) {
			return nil, fmt.Errorf("cannot apply patch type %s at index %d: %w", p.kind(), i, err)
		}
	}
	for _, field := range []string{"name", "namespace"} {
		if _, ok := ref[field].(string); !ok {
			r.warn("writeConnectionSecretToRef.patches: the %s that they give is not a text; the Secret keeps %q", field, base[field])
			ref[field] = base[field]
		}
	}
	return ref, nil
}

// secretBase is where the Secret belongs before patches.
func secretBase(xr map[string]any, wanted *connectionSecret) map[string]any {
	if said, err := fieldpath.Get(xr, "spec.writeConnectionSecretToRef"); err == nil && said != nil {
		name, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.name")
		namespace, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.namespace")
		return map[string]any{"name": text(name), "namespace": text(namespace)}
	}
	if wanted != nil && (wanted.Name != "" || wanted.Namespace != "") {
		return map[string]any{"name": wanted.Name, "namespace": wanted.Namespace}
	}
	return map[string]any{"name": text(named(xr, "name")) + "-connection", "namespace": text(named(xr, "namespace"))}
}
