package revision

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Content is what a revision keeps of a definition's spec: all but the fields about the use of
// revisions and about what instances may override, which may change without a new revision, and
// which a rollback must not restore. The account is kept beside it, as resolved.
func Content(spec *v1alpha1.DefinitionSpec) *v1alpha1.DefinitionSpec {
	out := spec.DeepCopy()
	out.Revision, out.RevisionHistoryLimit, out.Rollout, out.ServiceAccount, out.InstanceOverrides = nil, nil, nil, nil, nil
	return out
}

// UseFields are the fields of a definition's spec that its content lacks.
var UseFields = []string{"revision", "revisionHistoryLimit", "rollout", "serviceAccount", "instanceOverrides"}

// AuthoredContent is the content of a definition as its author wrote it, with no fields added.
func AuthoredContent(definition *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(definition.Object, "spec") // a copy
	if spec == nil {
		spec = map[string]any{}
	}
	for _, field := range UseFields {
		delete(spec, field)
	}
	return spec
}

// hashLength is how many digits of a digest a hash has: enough for a label.
const hashLength = 16

// Hash is equal for contents that have the same meaning: the order of the resources and of their
// conditions, white space, and explicit defaults don't count.
func Hash(spec *v1alpha1.DefinitionSpec) string {
	c := Content(spec)
	if c.Schema != nil {
		s := c.Schema
		if s.Group == "" {
			s.Group = v1alpha1.GroupVersion.Group
		}
		if s.Scope == "" {
			s.Scope = v1alpha1.NamespacedScope
		}
		for _, raw := range []*runtime.RawExtension{&s.Spec, &s.Types, &s.Status} {
			canonical(raw)
		}
	}
	c.Resources = slices.DeleteFunc(c.Resources, func(r *v1alpha1.Resource) bool { return r == nil })
	slices.SortStableFunc(c.Resources, func(a, b *v1alpha1.Resource) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range c.Resources {
		canonical(&r.Template)
		canonical(&r.Value)
		if r.ExternalRef != nil {
			canonical(&r.ExternalRef.Metadata.Selector)
		}
		slices.Sort(r.ReadyWhen)
		slices.Sort(r.IncludeWhen)
		slices.Sort(r.PropagateWhen)
	}
	return object.Digest(c)[:hashLength]
}

// Fields are sorted.
func canonical(raw *runtime.RawExtension) {
	if len(bytes.TrimSpace(raw.Raw)) == 0 {
		*raw = runtime.RawExtension{}
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(raw.Raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		value = string(raw.Raw) // it makes no sense, and is different from all that does
	}
	if text, err := json.Marshal(value); err == nil {
		raw.Raw = text
	}
}
