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

// secretNode is the node of the Secret with a composite's connection details. It is
// nothing that the composition names.
const secretNode = "crossplane.io/connection-details"

// secretType is what kind of Secret it is.
const secretType = "connection.crossplane.io/v1alpha1"

// secret is the composite's Secret as it is, if it is there.
func (s *sitting) secret() *unstructured.Unstructured {
	ref, _ := s.xr.ConnectionSecret()
	return s.facts.Object(secretNode, secretKind, ref.Namespace, ref.Name)
}

// secretNode wants the Secret, if the composite says where it is to be and there is
// something to put into it, or was: what the details come from may be made anew.
func (s *sitting) secretNode(d *pipeline.Desired) (plan.Node, bool) {
	ref, wanted := s.xr.ConnectionSecret()
	details, observed := s.published(d), s.secret()
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
	return plan.Node{ID: secretNode, Kind: secretKind, Object: o, Observed: observed, Ready: observed != nil, Conceals: true}, true
}

// published are the connection details that the definition lets out.
func (s *sitting) published(d *pipeline.Desired) map[string]any {
	keys := s.Definition.Spec.ConnectionSecretKeys
	out := map[string]any{}
	for key, value := range d.ConnectionDetails {
		if len(keys) == 0 || slices.Contains(keys, key) {
			out[key] = base64.StdEncoding.EncodeToString(value)
		}
	}
	return out
}

// publishedAt is when the connection details were last written as they are; empty where
// they weren't.
func (s *sitting) publishedAt(d *pipeline.Desired) string {
	node, wanted := s.secretNode(d)
	if !wanted {
		return ""
	}
	before := s.xr.LastPublished()
	written := node.Observed != nil && object.Digest(node.Observed.Object["data"]) == object.Digest(node.Object.Object["data"])
	switch {
	case !written: // yet: the next turn sees it
		s.memory.unpublished = true
		return before
	case s.memory.unpublished, before == "" && s.memory.published == "":
		s.memory.unpublished, s.memory.published = false, s.Now().UTC().Format(time.RFC3339)
	}
	return cmp.Or(s.memory.published, before)
}
