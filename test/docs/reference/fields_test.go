package reference

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	crossplane "github.com/espalier-dev/espalier/api/apiextensions"
	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	pkgs "github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	revision "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// installed are the CustomResourceDefinitions that the program and the AWS provider install, by kind.
func installed(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, files := range []fs.FS{v1alpha1.CRDs, revision.CRDs, crossplane.CRDs, pkgs.CRDs, ops.CRDs, protection.CRDs, os.DirFS(filepath.Join(root, "providers/aws/v1alpha1/crds"))} {
		for _, c := range definitionsIn(t, files) {
			out[c.Spec.Names.Kind] = c
		}
	}
	return out
}

func definitionsIn(t *testing.T, files fs.FS) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		c := &apiextensionsv1.CustomResourceDefinition{}
		out = append(out, c)
		return yaml.Unmarshal(raw, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFieldsAreCurrent compares the tables of fields with the schemas of the kinds.
func TestFieldsAreCurrent(t *testing.T) {
	kinds := installed(t)
	for _, table := range []struct{ page, name, kind, version, part string }{
		{"definition.md", "spec of ResourceGraphDefinition", "ResourceGraphDefinition", "v1alpha1", "spec"},
		{"definition.md", "status of ResourceGraphDefinition", "ResourceGraphDefinition", "v1alpha1", "status"},
		{"definition.md", "fields of GraphRevision", "GraphRevision", "v1alpha1", "spec status"},
		{"composition.md", "spec of CompositeResourceDefinition", "CompositeResourceDefinition", "v2", "spec"},
		{"composition.md", "spec of Composition", "Composition", "v1", "spec"},
		{"composition.md", "fields of EnvironmentConfig", "EnvironmentConfig", "v1beta1", "data"},
		{"composition.md", "fields of Function", "Function", "v1", "spec"},
		{"composition.md", "fields of Operation", "Operation", "v1alpha1", "spec status"},
		{"composition.md", "fields of CronOperation", "CronOperation", "v1alpha1", "spec status"},
		{"composition.md", "fields of WatchOperation", "WatchOperation", "v1alpha1", "spec status"},
		{"composition.md", "fields of Usage", "Usage", "v1beta1", "spec status"},
		{"activation.md", "fields of ResourceTypeActivation", "ResourceTypeActivation", "v1alpha1", "spec status"},
	} {
		t.Run(table.name, func(t *testing.T) {
			c := kinds[table.kind]
			if c == nil {
				t.Fatal("there is no such kind")
			}
			i := slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == table.version })
			if i < 0 {
				t.Fatalf("%s has no version %s", table.kind, table.version)
			}
			load(t, table.page).generated(t, table.name, fieldTable(t, c.Spec.Versions[i].Schema.OpenAPIV3Schema, strings.Fields(table.part)...))
		})
	}
}

// TestBothSpellingsHaveTheSameFields is why the fields of a ResourceGroup are in no table.
func TestBothSpellingsHaveTheSameFields(t *testing.T) {
	kinds := installed(t)
	table := func(kind string) string {
		return fieldTable(t, kinds[kind].Spec.Versions[0].Schema.OpenAPIV3Schema, "spec", "status")
	}
	for _, line := range difference(table("ResourceGroup"), table("ResourceGraphDefinition")) {
		t.Error(line)
	}
}

// TestStatusOfInstancesIsCurrent compares the table of an instance's status with what the engine
// puts into the schema of every kind.
func TestStatusOfInstancesIsCurrent(t *testing.T) {
	status := report.Schema(nil)
	whole := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": status}}
	load(t, "instance.md").generated(t, "status of instances", fieldTable(t, whole, "status"))
}

// fieldTable is a table of the fields of some parts of a kind's objects. A part that is itself no
// object is a row; what is below an object that another table describes is not there.
func fieldTable(t *testing.T, s *apiextensionsv1.JSONSchemaProps, parts ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| field | type | default and limits | |\n|---|---|---|---|\n")
	for _, part := range parts {
		whole := s.Properties[part]
		if len(whole.Properties) == 0 {
			writeFields(t, &b, part, whole, slices.Contains(s.Required, part))
		}
		for _, name := range slices.Sorted(maps.Keys(whole.Properties)) {
			writeFields(t, &b, part+"."+name, whole.Properties[name], slices.Contains(whole.Required, name))
		}
	}
	return b.String()
}

// elsewhere are fields below which another table continues.
var elsewhere = map[string]string{
	"spec.snapshot.spec":               "as [above](#fields-of-the-spec)",
	"spec.operationTemplate.spec":      "as the spec of an Operation",
	"status.deletion.blockers[].cause": "as the blocker itself", "status.deletion.leftBehind": "as `blockers`", "status.pruning": "as `deletion.blockers`",
	"status.pendingResources": " ", "status.crossplane.pendingResources": " ",
}

// ordinary are the fields that no kind describes, since they mean the same everywhere, by the end
// of their paths.
var ordinary = []struct{ end, text string }{
	{"conditions", "the conditions of the object, one of each type"},
	{"conditions[].type", "the type of the condition"},
	{"conditions[].status", "`True`, `False` or `Unknown`"},
	{"conditions[].reason", "the reason in one word, for programs"},
	{"conditions[].message", "the reason, for people"},
	{"conditions[].lastTransitionTime", "when `status` last changed"},
	{"conditions[].observedGeneration", "the generation of the object that was observed"},
	{".reason", "the reason in one word, for programs"},
	{".message", "the reason, for people"},
	{".since", "since when"},
	{".object", "the object"},
	{".apiVersion", "the group and version of the object"},
	{".kind", "the kind of the object"},
	{".namespace", "the namespace of the object"},
	{".name", "the name of the object"},
	{".finalizers", "the finalizers that block the deletion of the object"},
	{".startedAt", "when the deletion was requested"},
	{"metadata.labels", "labels of the CustomResourceDefinition"},
	{"metadata.annotations", "annotations of the CustomResourceDefinition"},
	{"conversion.to.spec", "fields of the schema's version, as expressions"},
	{"conversion.from.spec", "fields of this version, as expressions"},
	{"resources[].id", "the id of a resource"},
	{"resources[].dependencies", "the resources that it reads"},
	{"rollout.waves", "the number of waves"},
	{"rollout.updated", "the number of instances with the revision"},
	{"rollout.ready", "the number of those that are ready"},
	{"rollout.pinned", "the number of instances that select a revision themselves, and are not updated"},
	{"rollout.waveStartedAt", "when the wave began"},
	{"rollout.waveReadyAt", "since when the wave is ready"},
	{"compositionRef", "the name of the composition; selected by the controllers if it is not set"},
	{"compositionRevisionRef", "the revision of the composition; the newest unless the update policy is `Manual`"},
	{"compositionSelector", "selects the composition by its labels"},
	{"compositionRevisionSelector", "selects a revision of the composition by its labels"},
	{"Selector.matchLabels", "labels that all must match"},
	{"compositionUpdatePolicy", "`Automatic` uses the newest revision of the composition, `Manual` keeps `compositionRevisionRef`"},
	{"resourceRefs", "the composed objects; written by the controllers before they are created"},
	{"resourceRefs[].resourceName", "the name of the object in the composition's functions"},
	{"resourceRefs[].dependsOn", "the resources that the object depends on, as declared by a function; they are deleted after it"},
	{"pendingResources", "not written; see `status.waiting`"},
	{"writeConnectionSecretToRef", "the Secret that connection details are written to"},
	{"claimRef", "the claim that the composite belongs to; written by the controllers"},
	{"resourceRef", "the composite of the claim; written by the controllers"},
	{"compositeDeletePolicy", "`Background` or `Foreground`. With both, the claim stays until the composite is gone"},
	{"claimConditionTypes", "the conditions of the composite that functions also set on its claim"},
	{"connectionDetails", "the state of the connection details"},
	{"connectionDetails.lastPublishedTime", "when they were last written"},
	{"elector", "selects objects by their labels"},
	{"dependencies[].id", "the id of a resource that it reads"},
}

// plainly describes a field that means the same everywhere.
func plainly(at string) string {
	for _, o := range ordinary {
		if strings.HasSuffix(at, o.end) {
			return o.text
		}
	}
	return ""
}

// shared are the types of Kubernetes, which describes their fields.
var shared = []struct {
	name   string
	fields []string
}{
	{"LabelSelector", []string{"matchExpressions", "matchLabels"}},
	{"CustomResourceColumnDefinition", []string{"jsonPath", "name", "priority", "type"}},
	{"CustomResourceDefinitionNames", []string{"kind", "listKind", "plural", "shortNames", "singular"}},
	{"CustomResourceConversion", []string{"strategy", "webhook"}},
	{"CustomResourceSubresourceScale", []string{"labelSelectorPath", "specReplicasPath", "statusReplicasPath"}},
}

// foreign says that a description is that of a type of Kubernetes.
func foreign(text string) bool {
	return strings.HasPrefix(text, "A label selector is a label query") || strings.Contains(text, "More info: https://kubernetes.io")
}

func writeFields(t *testing.T, b *strings.Builder, at string, s apiextensionsv1.JSONSchemaProps, required bool) {
	t.Helper()
	of, kind := typeOf(s)
	text := sentence(cmp.Or(s.Description, plainly(at)), at)
	if foreign(text) {
		text = plainly(at)
	}
	if text == "" {
		t.Errorf("%s is not described", at)
	}
	if other := strings.TrimSpace(elsewhere[at]); other != "" {
		text = strings.TrimPrefix(strings.TrimSuffix(text, ".")+"; "+other, "; ")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", at, kind, bounds(s, required), text)
	if known(of) != "" || elsewhere[at] != "" {
		return
	}
	suffix := ""
	for inner := &s; inner != nil; {
		switch {
		case inner.Items != nil:
			suffix, inner = suffix+"[]", inner.Items.Schema
		case inner.AdditionalProperties != nil:
			suffix, inner = suffix+".<key>", inner.AdditionalProperties.Schema
		default:
			for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
				writeFields(t, b, at+suffix+"."+name, inner.Properties[name], slices.Contains(inner.Required, name))
			}
			inner = nil
		}
	}
}

// typeOf is the innermost object of a schema, and the schema's type in words.
func typeOf(s apiextensionsv1.JSONSchemaProps) (*apiextensionsv1.JSONSchemaProps, string) {
	switch {
	case s.Items != nil:
		of, kind := typeOf(*s.Items.Schema)
		return of, "list of " + kind
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		of, kind := typeOf(*s.AdditionalProperties.Schema)
		return of, "map of " + kind
	case known(&s) != "":
		return &s, known(&s)
	case s.XIntOrString:
		return &s, "integer or string"
	case s.Type == "" || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields && len(s.Properties) == 0:
		return &s, "any"
	}
	return &s, s.Type
}

func known(s *apiextensionsv1.JSONSchemaProps) string {
	for _, k := range shared {
		has := func(name string) bool { _, ok := s.Properties[name]; return ok }
		if slices.IndexFunc(k.fields, func(name string) bool { return !has(name) }) < 0 {
			return k.name
		}
	}
	return ""
}

// bounds are what a field's values are held to.
func bounds(s apiextensionsv1.JSONSchemaProps, required bool) string {
	var out []string
	add := func(there bool, format string, args ...any) {
		if there {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(required, "required")
	add(s.Default != nil, "default %s", code(string(raw(s.Default))))
	add(len(s.Enum) > 0, "one of %s", values(s.Enum))
	add(s.Pattern != "", "pattern %s", code(s.Pattern))
	add(s.Minimum != nil, "at least %v", number(s.Minimum))
	add(s.Maximum != nil, "at most %v", number(s.Maximum))
	add(s.MinLength != nil, "at least %s", counted(s.MinLength, "character"))
	add(s.MaxLength != nil, "at most %s", counted(s.MaxLength, "character"))
	add(s.MinItems != nil, "at least %s", counted(s.MinItems, "item"))
	add(s.MaxItems != nil, "at most %s", counted(s.MaxItems, "item"))
	add(s.MinProperties != nil && s.MaxProperties != nil && *s.MinProperties == 1 && *s.MaxProperties == 1, "exactly one key")
	for _, rule := range s.XValidations {
		add(true, "%s", strings.ReplaceAll(rule.Message, "|", `\|`))
	}
	if s.Items != nil {
		if inner := bounds(*s.Items.Schema, false); inner != "" {
			out = append(out, "each: "+inner)
		}
	}
	return strings.Join(out, "; ")
}

func raw(j *apiextensionsv1.JSON) []byte {
	if j == nil {
		return nil
	}
	return j.Raw
}

func number(n *float64) any {
	if n == nil {
		return nil
	}
	return *n
}

func counted(n *int64, noun string) string {
	if n == nil {
		return ""
	}
	return diag.Counted(int(*n), noun, noun+"s")
}

func values(all []apiextensionsv1.JSON) string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = code(strings.Trim(string(v.Raw), `"`))
	}
	return strings.Join(out, ", ")
}

// sentence is a description in one line of a table. It begins with the name of the field as it is
// written, and not as the Go type has it.
func sentence(text, at string) string {
	text = strings.Join(strings.Fields(text), " ")
	name := at[strings.LastIndex(at, ".")+1:]
	if first, rest, more := strings.Cut(text, " "); more && strings.EqualFold(first, name) {
		text = "`" + name + "` " + rest
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "${CEL}", "`${CEL}`").Replace(text)
}

// kindOf is the kind of a version of a CustomResourceDefinition.
func kindOf(c *apiextensionsv1.CustomResourceDefinition, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.Spec.Group, Version: version, Kind: c.Spec.Names.Kind}
}
