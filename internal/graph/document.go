package graph

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

func parseSpec(c *compilation) {
	s := c.spec.Schema
	fields, ok := c.decode(s.Spec, "spec.schema.spec")
	if !ok {
		return
	}
	types, ok := c.decode(s.Types, "spec.schema.types")
	if !ok {
		return
	}
	parsed, problems := specschema.Parse(fields, "spec.schema.spec", specschema.Options{
		Types: types, TypesPath: "spec.schema.types", Ignored: &c.graph.Warnings, Scaled: c.addScaled(s.APIVersion, "spec.schema.spec"),
	})
	c.problems.Add(problems...)
	c.instanceSpec, c.graph.Spec = parsed, parsed
	if s.Metadata != nil && s.Metadata.NameValidation != "" {
		c.graph.Name, problems = specschema.ParseName(s.Metadata.NameValidation, "spec.schema.metadata.nameValidation")
		c.problems.Add(problems...)
	}
}

// An absent field decodes as an empty object.
func (c *compilation) decode(raw runtime.RawExtension, at object.Path) (map[string]any, bool) {
	if isEmpty(raw) {
		return map[string]any{}, true
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw.Raw, &out); err != nil {
		c.problems.Addf(at, "is not an object")
		return nil, false
	}
	return out, c.checkDepth(out, at)
}

// MaxNesting bounds the levels of a JSON value in a definition: the paths of its fields take memory that
// grows with the square of their number.
const MaxNesting = 256

func (c *compilation) checkDepth(v any, at object.Path) bool {
	if isDeeper(v, MaxNesting) {
		c.problems.Addf(at, "has objects and lists nested more than %d levels deep (MaxNesting)", MaxNesting)
		return false
	}
	return true
}

func isDeeper(v any, limit int) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			if limit == 0 || isDeeper(below, limit-1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(below any) bool { return limit == 0 || isDeeper(below, limit-1) })
	}
	return false
}

func isEmpty(raw runtime.RawExtension) bool {
	text := bytes.TrimSpace(raw.Raw)
	return len(text) == 0 || string(text) == "null"
}

func decodeNodes(c *compilation) {
	for _, d := range c.drafts {
		if d.broken {
			continue
		}
		hasTemplate, hasValue := !isEmpty(d.source.Template), !isEmpty(d.source.Value)
		hasPatch := d.patch != nil && !isEmpty(*d.patch)
		switch {
		case !exactlyOne(hasTemplate, d.source.ExternalRef != nil, hasValue, hasPatch):
			c.breakf(d, d.at, "exactly one of %s must be provided", c.words.contents)
		case hasPatch:
			c.decodePatch(d, *d.patch)
		case hasValue:
			c.decodeVariable(d)
		case len(d.source.ForEach) > 0 && !hasTemplate:
			c.breakf(d, d.at.Field("forEach"), "requires a template; %s reads several objects by metadata.selector", c.words.reference)
		case hasTemplate:
			c.decodeTemplate(d)
		default:
			c.decodeReference(d)
		}
	}
}

func exactlyOne(all ...bool) bool {
	n := 0
	for _, there := range all {
		if there {
			n++
		}
	}
	return n == 1
}

func (c *compilation) decodeTemplate(d *draft) {
	if document, ok := c.decode(d.source.Template, d.at.Field("template")); ok {
		c.decodeObject(d, document)
	} else {
		d.broken = true
	}
}

// decodeObject reads the identity of an object that the node writes.
func (c *compilation) decodeObject(d *draft, document map[string]any) {
	at := d.documentPath()
	d.document = document
	d.Collection = len(d.source.ForEach) > 0
	c.setComputedKind(d)
	kind := c.staticKind(d, at)
	metadata, isMap := document["metadata"].(map[string]any)
	_, given := document["metadata"]
	if !isMap && (given || c.graph.embedded == nil) {
		c.breakf(d, at.Field("metadata"), "is required, with a name")
		return
	}
	if name, _ := metadata["name"].(string); name == "" && c.graph.embedded == nil {
		c.breakf(d, at.Field("metadata", "name"), "is required: the object is found by its name")
	}
	c.readPolicyAnnotation(d, metadata, at.Field("metadata", "annotations"))
	if why := object.CheckComposable(kind.GroupKind()); why != "" {
		c.breakf(d, at.Field("kind"), "%s", why)
	}
	if !d.broken {
		d.Kind = kind
	}
}

func (c *compilation) staticKind(d *draft, at object.Path) schema.GroupVersionKind {
	apiVersion, kind := c.staticString(d, at, "apiVersion"), c.staticString(d, at, "kind")
	if d.broken {
		return schema.GroupVersionKind{}
	}
	invalid := func(field, text, why string) {
		if why != "" {
			c.breakf(d, at.Field(field), "%q is invalid: %s", diag.Truncate(text, maxShownName), why)
		}
	}
	invalid("apiVersion", apiVersion, object.CheckAPIVersion(apiVersion))
	invalid("kind", kind, object.CheckKind(kind))
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// staticString reads a field that determines the node's kind and therefore cannot be
// computed for each instance.
func (c *compilation) staticString(d *draft, at object.Path, field string) string {
	value, ok := d.document[field].(string)
	switch {
	case !ok || value == "":
		c.breakf(d, at.Field(field), "is required")
	case strings.Contains(value, "${"):
		c.breakf(d, at.Field(field), "must be plain text: a node has the same kind in every instance")
	}
	return value
}

func (c *compilation) decodeReference(d *draft) {
	ref, at := d.source.ExternalRef, d.at.Field(c.words.reference)
	d.External = true
	d.Collection = !isEmpty(ref.Metadata.Selector)
	if named := strings.TrimSpace(ref.Metadata.Name) != ""; d.Collection == named {
		c.breakf(d, at.Field("metadata", "name"), "exactly one of name or selector must be provided")
		return
	}
	d.document, d.namespaceUnset = referenceDocument(ref), ref.Metadata.Namespace == ""
	if d.Collection && !c.decodeSelector(d, at.Field("metadata", "selector")) {
		return
	}
	c.setComputedKind(d)
	d.Kind = c.staticKind(d, at)
}

func referenceDocument(ref *v1alpha1.ExternalRef) map[string]any {
	metadata := map[string]any{}
	if ref.Metadata.Name != "" {
		metadata["name"] = ref.Metadata.Name
	}
	if ref.Metadata.Namespace != "" {
		metadata["namespace"] = ref.Metadata.Namespace
	}
	return map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": metadata}
}

func (d *draft) documentPath() object.Path {
	switch {
	case d.kindOf != "":
		return d.kindOf
	case d.Patch:
		return d.at.Field("patch")
	case d.External:
		return d.at.Field(d.words.reference)
	case d.Variable:
		return d.at.Field(d.words.value)
	}
	return d.at.Field("template")
}

// instanceNamespace is the expression for the namespace of the instance, which is the default.
const instanceNamespace = "${schema.metadata.namespace}"

// checkPlaces checks scope and namespace, and that templates do not set reserved labels
// and annotations.
func checkPlaces(c *compilation) {
	for _, d := range c.drafts {
		if d.broken || d.Variable {
			continue
		}
		at := d.documentPath().Field("metadata")
		metadata, isMap := d.document["metadata"].(map[string]any)
		namespace, set := metadata["namespace"]
		d.anyNamespace = !isMap || set && namespace != instanceNamespace
		if c.graph.embedded == nil {
			c.checkScope(d, metadata, at.Field("namespace"))
			c.checkLiteralNames(d, metadata, at)
			c.checkLiteralLabels(metadata, at)
			c.checkServerFields(d, metadata, at)
		}
		for _, key := range reservedKeys(metadata) {
			c.problems.Addf(at.Field(key.field, key.name), "the prefix of this key is reserved for Espalier")
		}
	}
}

func (c *compilation) checkScope(d *draft, metadata map[string]any, at object.Path) {
	namespace, set := metadata["namespace"]
	if d.KindKnown && !d.Namespaced && set {
		c.problems.Addf(at, "%s is cluster-scoped and has no namespace", d.Kind.Kind)
	}
	if d.isSelection() {
		return // without a namespace it selects from all namespaces
	}
	if text, _ := namespace.(string); d.KindKnown && d.Namespaced && !c.graph.Namespaced && strings.TrimSpace(text) == "" {
		c.problems.Addf(at, "is required: %s is namespaced and instances of %s are cluster-scoped", d.Kind.Kind, c.graph.Kind.Kind)
	}
}

// reservedKey is a label or an annotation that the engine writes.
type reservedKey struct{ field, name string }

// reservedKeys is sorted.
func reservedKeys(metadata map[string]any) []reservedKey {
	var out []reservedKey
	for _, field := range []string{"labels", "annotations"} {
		entries, _ := metadata[field].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			if strings.HasPrefix(name, v1alpha1.Prefix) || strings.HasPrefix(name, v1alpha1.InternalPrefix) {
				out = append(out, reservedKey{field, name})
			}
		}
	}
	return out
}
