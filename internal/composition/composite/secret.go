package composite

import (
	"cmp"
	"encoding/base64"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// secretNode is the node ID of the Secret with a composite's connection details. No
// resource of the composition has this name.
const secretNode = "crossplane.io/connection-details"

const secretType = "connection.crossplane.io/v1alpha1"

// observedSecret may be nil.
func (s *compositeState) observedSecret() *unstructured.Unstructured {
	ref, _ := s.xr.ConnectionSecretRef()
	return s.facts.Object(secretNode, secretKind, ref.Namespace, ref.Name)
}

// secretNode is the node of the connection Secret, if the composite has a
// writeConnectionSecretToRef and there are connection details. If the details are gone, for
// example while their source is recreated, the Secret keeps its data.
func (s *compositeState) secretNode(d *pipeline.Desired) (plan.Node, bool) {
	ref, wanted := s.xr.ConnectionSecretRef()
	details, observed := s.publishedDetails(d), s.observedSecret()
	if len(details) == 0 && observed != nil {
		details, _, _ = unstructured.NestedMap(observed.Object, "data")
	}
	if !wanted || ref.Namespace == "" || len(details) == 0 {
		return plan.Node{}, false
	}
	o := &unstructured.Unstructured{Object: map[string]any{"type": secretType, "data": details}}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(ref.Namespace)
	o.SetName(ref.Name)
	return plan.Node{ID: secretNode, Kind: secretKind, Object: o, Observed: observed, Ready: observed != nil, Sensitive: true}, true
}

func (s *compositeState) publishedDetails(d *pipeline.Desired) map[string]any {
	keys := s.Definition.Spec.ConnectionSecretKeys
	out := map[string]any{}
	for key, value := range d.ConnectionDetails {
		if len(keys) == 0 || slices.Contains(keys, key) {
			out[key] = base64.StdEncoding.EncodeToString(value)
		}
	}
	return out
}

// publishedAt is when the connection details were last written, in RFC 3339; empty if they
// were never written.
func (s *compositeState) publishedAt(d *pipeline.Desired) string {
	node, wanted := s.secretNode(d)
	if !wanted {
		return ""
	}
	before := s.xr.LastPublished()
	written := node.Observed != nil && object.Digest(node.Observed.Object["data"]) == object.Digest(node.Object.Object["data"])
	switch {
	case !written: // the next round sees it written
		s.memory.publishPending = true
		return before
	case s.memory.publishPending, before == "" && s.memory.publishedAt == "":
		s.memory.publishPending, s.memory.publishedAt = false, s.Now().UTC().Format(time.RFC3339)
	}
	return cmp.Or(s.memory.publishedAt, before)
}
