package patchandtransform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/espalier-dev/espalier/internal/function/call"
	"github.com/espalier-dev/espalier/internal/function/fieldpath"
)

// secretName is the name in the composition of the Secret that holds connection details.
const secretName = "connection-secret"

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

// tellDetails gives connection details to the composite. One that has spec.crossplane
// has none: for it, they become a Secret that is composed.
func (r *rendering) tellDetails() error {
	if len(r.details) == 0 {
		return nil
	}
	if _, err := fieldpath.Get(r.Observed.Composite.Object, "spec.crossplane"); err != nil {
		if r.Desired.Composite.ConnectionDetails == nil {
			r.Desired.Composite.ConnectionDetails = map[string][]byte{}
		}
		for key, value := range r.details {
			r.Desired.Composite.ConnectionDetails[key] = value
		}
		return nil
	}
	at, err := r.secretRef()
	if err != nil {
		return err
	}
	data := map[string]any{}
	for key, value := range r.details {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "connection.crossplane.io/v1alpha1", "data": data,
	}
	place(secret, "name", at["name"])
	place(secret, "namespace", at["namespace"])
	r.Desired.Resources[secretName] = call.Resource{Object: secret, Ready: call.True}
	return nil
}

// secretRef is where the Secret belongs: where the composite says, or else the input, or
// else beside the composite; patches have the last word, unless the value that they read
// is not there.
func (r *rendering) secretRef() (map[string]any, error) {
	xr, wanted := r.Observed.Composite.Object, r.in.WriteConnectionSecretToRef
	name, _ := fieldpath.Get(xr, "metadata.name")
	namespace, _ := fieldpath.Get(xr, "metadata.namespace")
	ref := map[string]any{"name": fmt.Sprint(name) + "-connection", "namespace": namespace}
	if said, err := fieldpath.Get(xr, "spec.writeConnectionSecretToRef"); err == nil && said != nil {
		name, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.name")
		namespace, _ := fieldpath.Get(xr, "spec.writeConnectionSecretToRef.namespace")
		ref = map[string]any{"name": name, "namespace": namespace}
	} else if wanted != nil && (wanted.Name != "" || wanted.Namespace != "") {
		ref = map[string]any{"name": wanted.Name, "namespace": wanted.Namespace}
	}
	if wanted == nil {
		return ref, nil
	}
	for i := range wanted.Patches {
		p := &wanted.Patches[i]
		err := p.apply(xr, ref)
		if err != nil && (p.kind() != fromComposite || p.Policy.required()) {
			return nil, fmt.Errorf("cannot apply patch type %s at index %d: %w", p.kind(), i, err)
		}
	}
	return ref, nil
}
