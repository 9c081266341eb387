package patchandtransform

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/object"
)

// GraphResource is a composed resource as a resource of a graph definition.
type GraphResource struct {
	// Name is that of the composed resource, and ID that in the graph definition.
	Name, ID string
	Template map[string]any
	// ReadyWhen are its conditions; none if it is ready when it exists, or by its status.
	ReadyWhen []string
}

// GraphOptions say how resources become those of a graph definition.
type GraphOptions struct {
	// Spec is the schema of the composite's spec.
	Spec *apiextensionsv1.JSONSchemaProps
	// HealthByStatus says that resources without readiness checks are ready by their own status.
	HealthByStatus bool
	// ReservedIDs are names that no resource can have.
	ReservedIDs func(id string) bool
}

// Graph is what an input composes, as the resources and the status of a graph definition.
type Graph struct {
	Resources []GraphResource
	Status    map[string]any
}

// ToGraph returns resources and a status with expressions that have the same result as the patches of an
// input, and what has no equivalent in a graph definition, which is left out. The input must be valid.
func (in *Input) ToGraph(o GraphOptions) (Graph, diag.List) {
	g := &graphing{in: in, options: o, ids: map[string]string{}, status: map[string]any{}}
	g.name()
	g.collectWriters()
	if in.Environment != nil && len(in.Environment.Patches) > 0 {
		g.lost.Addf("environment", "a graph definition has no environment; read an EnvironmentConfig with an externalRef")
	}
	if in.WriteConnectionSecretToRef != nil {
		g.lost.Addf("writeConnectionSecretToRef", "a graph definition has no connection Secret; add a Secret to its resources")
	}
	var out Graph
	for i := range in.Resources {
		at, t := object.Path("resources").Index(i), &in.Resources[i]
		if t.Base == nil {
			g.lost.Addf(at.Field("base"), "is missing: a resource of an earlier function is changed, which has no equivalent")
			continue
		}
		out.Resources = append(out.Resources, g.resource(at, t))
	}
	for _, w := range g.writers {
		if err := place(g.status, w.path, w.value, fieldpath.Policy{}); err != nil {
			g.lost.Addf(w.at, "%v", err)
		}
	}
	out.Status, _ = templateOf(g.status).(map[string]any)
	return out, g.lost.Sorted()
}

// graphing is the state of a conversion.
type graphing struct {
	in      *Input
	options GraphOptions
	ids     map[string]string // by name of a resource
	writers []statusWriter
	status  map[string]any
	lost    diag.List
}

// statusWriter is a patch that writes a field of the composite's status.
type statusWriter struct {
	at       object.Path
	resource string
	path     fieldpath.Path // below status
	value    *expression
}

// name gives each resource an id: its name in camel case.
func (g *graphing) name() {
	taken := map[string]bool{}
	for _, t := range g.in.Resources {
		id := base(t.Name)
		for n := 2; taken[id] || g.options.ReservedIDs(id); n++ {
			id = fmt.Sprint(base(t.Name), n)
		}
		taken[id], g.ids[t.Name] = true, id
	}
}

// base is a name in lower camel case.
func base(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		switch {
		case !letter && (r < '0' || r > '9' || b.Len() == 0):
			upper = b.Len() > 0
		case upper:
			b.WriteString(strings.ToUpper(string(r)))
			upper = false
		case b.Len() == 0:
			b.WriteString(strings.ToLower(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		return "resource"
	}
	return b.String()[:min(b.Len(), 60)]
}

// pathOf is where a patch of a resource is in the input.
func pathOf(at object.Path, i int) object.Path { return at.Field("patches").Index(i) }

// collectWriters finds the fields of the status that resources write.
func (g *graphing) collectWriters() {
	for i := range g.in.Resources {
		t := &g.in.Resources[i]
		for j, p := range g.in.flattenPatchSets(t.Patches) {
			at := pathOf(object.Path("resources").Index(i), j)
			if kind := p.typeOrDefault(); kind != toComposite && kind != combineToComposite {
				continue
			}
			to, err := fieldpath.Parse(p.target())
			if err != nil || len(to) < 2 || to[0].Field != "status" {
				g.lost.Addf(at, "writes %s of the composite: a graph definition writes only the status of its instances", p.target())
				continue
			}
			id := g.ids[t.Name]
			value, err := g.value(p.patch, func(path fieldpath.Path) (expression, error) { return selected(expression{text: id}, path, false) })
			if err == nil && mergePolicies[p.Policy.ToFieldPath].Merge {
				err = fmt.Errorf("policy %s has no equivalent in a status", p.Policy.ToFieldPath)
			}
			if err != nil {
				g.lost.Addf(at, "%v", err)
				continue
			}
			g.writers = append(g.writers, statusWriter{at, t.Name, to[1:], &value})
		}
	}
}

// value is the value that a patch writes, of fields that are read by a function.
func (g *graphing) value(p *patch, read func(fieldpath.Path) (expression, error)) (expression, error) {
	parse := func(text string) (expression, error) {
		path, err := fieldpath.Parse(text)
		if err != nil {
			return expression{}, err
		}
		return read(path)
	}
	if !p.combines() {
		e, err := parse(p.FromFieldPath)
		if err != nil {
			return expression{}, err
		}
		return afterTransforms(e, p.Transforms)
	}
	values, names := make([]expression, len(p.Combine.Variables)), make([]expression, len(p.Combine.Variables))
	for i, v := range p.Combine.Variables {
		e, err := parse(v.FromFieldPath)
		if err != nil {
			return expression{}, err
		}
		values[i], names[i] = e, e
		if e.optional {
			names[i].text, names[i].optional = fmt.Sprint("v", i+1), false
		}
	}
	text, err := formatExpression(p.Combine.String.Format, names)
	if err != nil {
		return expression{}, err
	}
	out := expression{text: text, kind: typeString}
	for i, v := range slices.Backward(values) { // absent if one of them is
		if !v.optional {
			continue
		}
		call := ".optMap("
		if out.optional {
			call = ".optFlatMap("
		}
		out.text, out.optional = v.text+call+names[i].text+", "+out.text+")", true
	}
	return afterTransforms(out, p.Transforms)
}

// fromComposite reads a field of the composite for a patch of a resource.
func (g *graphing) fromComposite(resource string, required bool) func(fieldpath.Path) (expression, error) {
	return func(path fieldpath.Path) (expression, error) {
		if len(path) == 0 {
			return expression{}, fmt.Errorf("reads the whole composite, which has no equivalent")
		}
		switch path[0].Field {
		case "spec":
			if len(path) > 1 && path[1].Field == "crossplane" {
				return expression{}, fmt.Errorf("reads %s, which instances of a graph definition do not have", path)
			}
			return selected(expression{text: "schema.spec", kind: typeObject, schema: g.options.Spec}, path[1:], required)
		case "metadata":
			e, err := selected(expression{text: "schema.metadata", kind: typeObject, schema: metadataSchema}, path[1:], required)
			if err == nil && len(path) == 2 && (path[1].Field == "labels" || path[1].Field == "annotations") {
				return e.bound(withoutEngineKeys)
			}
			return e, err
		case "status":
			return g.fromStatus(resource, path, required)
		case "apiVersion", "kind":
			return expression{text: "schema." + path[0].Field, kind: typeString}, nil
		}
		return expression{}, fmt.Errorf("reads %s, which instances of a graph definition do not have", path)
	}
}

// withoutEngineKeys is a map of labels or annotations without those that the controllers set on each instance: a template may not have
// them.
func withoutEngineKeys(v string) (text, kind string, err error) {
	return v + `.transformMap(k, x, !k.matches("^((internal[.])?kro[.]run|applyset[.]kubernetes[.]io)/"), x)`, typeObject, nil
}

// metadataSchema says what of the metadata of an object is always there.
var metadataSchema = &apiextensionsv1.JSONSchemaProps{
	XPreserveUnknownFields: new(true),
	Required:               []string{"name", "namespace", "uid"},
	Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"name": {Type: typeString}, "namespace": {Type: typeString}, "uid": {Type: typeString},
		"labels":      {Type: typeObject, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: typeString}}},
		"annotations": {Type: typeObject, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: typeString}}},
	},
}

// fromStatus reads the field of another resource that a field of the status is written from.
func (g *graphing) fromStatus(resource string, path fieldpath.Path, required bool) (expression, error) {
	for _, w := range slices.Backward(g.writers) {
		rest := path[1:]
		if len(w.path) > len(rest) || !slices.Equal(w.path, rest[:len(w.path)]) {
			continue
		}
		if w.resource == resource {
			return expression{}, fmt.Errorf("reads %s, which the resource itself writes; a resource of a graph definition cannot read itself", path)
		}
		return selected(*w.value, rest[len(w.path):], required)
	}
	return expression{}, fmt.Errorf("reads %s of the composite, which no resource writes", path)
}

// resource is a composed resource as one of a graph definition.
func (g *graphing) resource(at object.Path, t *template) GraphResource {
	out := GraphResource{Name: t.Name, ID: g.ids[t.Name]}
	if len(t.ConnectionDetails) > 0 {
		g.lost.Addf(at.Field("connectionDetails"), "a graph definition has no connection details; add a Secret to its resources that reads them")
	}
	desired := runtime.DeepCopyJSON(t.Base)
	for i, p := range g.in.flattenPatchSets(t.Patches) {
		var err error
		switch p.typeOrDefault() {
		case fromComposite, combineFromComposite:
			err = g.patched(t, p.patch, desired)
		case toComposite, combineToComposite:
		default:
			err = fmt.Errorf("%s: a graph definition has no environment; read an EnvironmentConfig with an externalRef", p.typeOrDefault())
		}
		if err != nil {
			g.lost.Addf(pathOf(at, i), "%v", err)
		}
	}
	g.named(desired, t.Name)
	for field, value := range desired {
		desired[field] = withContainers(value, t.Base[field], object.Path(field), func(item object.Path) {
			g.lost.Addf(at.Field("patches"), "%s exists only sometimes, and the list has other items, which has no equivalent", item)
		})
	}
	out.Template, _ = templateOf(desired).(map[string]any)
	out.ReadyWhen = g.readyWhen(at, out.ID, out.Template, t.ReadinessChecks)
	return out
}

// named gives a resource a name if it has none: a graph definition has no generated ones.
func (g *graphing) named(desired map[string]any, resource string) {
	metadata, _ := desired["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		desired["metadata"] = metadata
	}
	delete(metadata, "generateName")
	byDefault := "schema.metadata.name + " + quoted("-"+resource)
	switch name := metadata["name"].(type) {
	case nil:
		metadata["name"] = &expression{text: byDefault, kind: typeString}
	case *expression:
		if name.optional {
			metadata["name"] = &expression{text: name.text + ".orValue(" + byDefault + ")", kind: typeString}
		}
	}
}

// patched applies a patch to a template.
func (g *graphing) patched(t *template, p *patch, desired map[string]any) error {
	value, err := g.value(p, g.fromComposite(t.Name, p.Policy.required()))
	if err != nil {
		return err
	}
	to, err := fieldpath.Parse(p.target())
	if err != nil {
		return err
	}
	for _, one := range expanded(desired, to) {
		if err := place(desired, one, &value, mergePolicies[p.Policy.ToFieldPath]); err != nil {
			return err
		}
	}
	return nil
}

// expanded are the paths that a path with [*] stands for in a value.
func expanded(in any, path fieldpath.Path) []fieldpath.Path {
	for i, s := range path {
		switch v := in.(type) {
		case []any:
			if s.Field == "*" && !s.IsIndex {
				return expandedAt(path, i, len(v), func(n int) (fieldpath.Segment, any) { return fieldpath.Segment{Index: n, IsIndex: true}, v[n] })
			}
			if !s.IsIndex || s.Index >= len(v) {
				return []fieldpath.Path{path}
			}
			in = v[s.Index]
		case map[string]any:
			if s.Field == "*" && !s.IsIndex {
				keys := slices.Sorted(maps.Keys(v))
				return expandedAt(path, i, len(keys), func(n int) (fieldpath.Segment, any) { return fieldpath.Segment{Field: keys[n]}, v[keys[n]] })
			}
			in = v[s.Field]
		default:
			return []fieldpath.Path{path}
		}
	}
	return []fieldpath.Path{path}
}

func expandedAt(path fieldpath.Path, at, count int, item func(n int) (fieldpath.Segment, any)) []fieldpath.Path {
	var out []fieldpath.Path
	for n := range count {
		segment, value := item(n)
		for _, rest := range expanded(value, path[at+1:]) {
			out = append(out, slices.Concat(path[:at], fieldpath.Path{segment}, rest))
		}
	}
	return out
}

// place sets a field of a template to an expression, over what is there: the former value stays if the
// expression has none.
func place(in map[string]any, path fieldpath.Path, value *expression, policy fieldpath.Policy) error {
	var at any = in
	set := func(v any) {}
	for i := 0; ; i++ {
		if e, ok := at.(*expression); ok && i < len(path) {
			return fmt.Errorf("writes %s, inside of what another patch writes (%s)", path, e.text)
		}
		if i == len(path) {
			break
		}
		s := path[i]
		if s.Field == "*" && !s.IsIndex {
			return fmt.Errorf("writes %s, and the base has no list or object there", path)
		}
		if s.IsIndex {
			list, ok := at.([]any)
			if !ok && at != nil || s.Index > len(list) {
				return fmt.Errorf("writes %s, and the base has no such list", path)
			}
			if s.Index == len(list) {
				list = append(list, nil)
				set(list)
			}
			at, set = list[s.Index], func(v any) { list[s.Index] = v }
			continue
		}
		fields, ok := at.(map[string]any)
		if !ok && at != nil {
			return fmt.Errorf("writes %s, and the base has no object there", path)
		}
		if fields == nil {
			fields = map[string]any{}
			set(fields)
		}
		at, set = fields[s.Field], func(v any) { fields[s.Field] = v }
	}
	out, err := over(at, value, policy)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	set(out)
	return nil
}

// over is an expression over a former value.
func over(before any, value *expression, policy fieldpath.Policy) (*expression, error) {
	if before == nil {
		return value, nil
	}
	former, isExpression := before.(*expression)
	if policy.Merge {
		return merged(before, value, policy)
	}
	switch {
	case !value.optional:
		return value, nil
	case isExpression && former.optional:
		return &expression{text: value.text + ".or(" + former.text + ")", optional: true, kind: value.kind}, nil
	}
	old := literal(before)
	if value.kind == typeUnknown || value.kind == typeObject || value.kind == typeArray {
		old = "dyn(" + old + ")"
	}
	if kind := kindOf(before); value.kind != typeUnknown && kind != typeUnknown && kind != value.kind {
		return nil, fmt.Errorf("is a %s in the base, and the patch writes a %s if it can", kind, value.kind)
	}
	return &expression{text: value.text + ".orValue(" + old + ")", kind: value.kind}, nil
}

// merged merges a value and a former one.
func merged(before any, value *expression, policy fieldpath.Policy) (*expression, error) {
	old, kind := "dyn("+literal(before)+")", kindOf(before)
	if former, ok := before.(*expression); ok && former.optional || value.kind != kind {
		return nil, fmt.Errorf("a merge of values whose types are not both known has no equivalent")
	}
	var merge func(v string) string
	switch {
	case kind == typeArray && policy.AppendLists:
		merge = func(v string) string { return old + " + " + v }
	case kind == typeObject && !policy.AppendLists && policy.KeepExisting:
		merge = func(v string) string { return "dyn(" + v + ").deepMerge(" + old + ")" }
	case kind == typeObject && !policy.AppendLists:
		merge = func(v string) string { return old + ".deepMerge(" + v + ")" }
	default:
		return nil, fmt.Errorf("a merge of values of type %s that appends lists has no equivalent", cmp.Or(kind, "unknown"))
	}
	if !value.optional {
		return &expression{text: merge(value.text), kind: kind}, nil
	}
	return &expression{text: value.text + ".optMap(v, " + merge("v") + ").orValue(" + old + ")", kind: kind}, nil
}

// withContainers is a value in which an object or a list that only patches create exists only if one of its
// fields or items does, as a patch creates what it writes into. Base is the value before the patches. An item
// that exists only sometimes, in a list that has others, is reported as lost, and is as it was before.
func withContainers(value, base any, at object.Path, lost func(object.Path)) any {
	switch v := value.(type) {
	case map[string]any:
		before, exists := base.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(v)) {
			v[field] = withContainers(v[field], before[field], at.Field(field), lost)
		}
		if !exists {
			return createdObject(v)
		}
	case []any:
		before, exists := base.([]any)
		items := make([]any, 0, len(v))
		for i := range v {
			var old any
			if i < len(before) {
				old = before[i]
			}
			item := withContainers(v[i], old, at.Index(i), lost)
			if e, ok := item.(*expression); ok && e.optional && (exists || len(v) > 1) {
				lost(at.Index(i))
				if old == nil {
					continue
				}
				item = old
			}
			items = append(items, item)
		}
		if exists || len(items) == 0 {
			return items
		}
		if e, ok := items[0].(*expression); ok && e.optional {
			return &expression{text: e.text + ".optMap(v, [v])", optional: true, kind: typeArray}
		}
		return items
	}
	return value
}

// createdObject is an object that exists if one of its fields does.
func createdObject(fields map[string]any) any {
	names := slices.Sorted(maps.Keys(fields))
	kinds := make([]any, len(names))
	for i, name := range names {
		e, ok := fields[name].(*expression)
		if !ok || !e.optional {
			return fields
		}
		kinds[i] = e
	}
	if len(names) == 1 {
		only := fields[names[0]].(*expression)
		return &expression{text: only.text + ".optMap(v, {" + quoted(names[0]) + ": v})", optional: true, kind: typeObject}
	}
	values, exists := make(map[string]any, len(names)), make([]string, len(names))
	for i, name := range names {
		e := *fields[name].(*expression)
		exists[i] = e.text + ".hasValue()"
		if sameKind(kinds) == typeUnknown || e.kind == typeObject || e.kind == typeArray {
			e.text += ".optMap(v, dyn(v))"
		}
		values[name] = &e
	}
	return &expression{text: "(" + strings.Join(exists, " || ") + " ? optional.of(" + literal(values) + ") : optional.none())", optional: true, kind: typeObject}
}

// templateOf is a value with expressions as a template writes them.
func templateOf(value any) any {
	switch v := value.(type) {
	case *expression:
		return "${" + v.text + "}"
	case string:
		if strings.Contains(v, "${") {
			return "${" + quoted(v) + "}"
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = templateOf(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = templateOf(item)
		}
		return out
	default:
		return v
	}
}

// readyWhen are the readiness checks as conditions. Without checks a resource is ready by its condition
// Ready, or by its status in general.
func (g *graphing) readyWhen(at object.Path, id string, template map[string]any, checks []readinessCheck) []string {
	if len(checks) == 0 && g.options.HealthByStatus {
		return nil
	}
	if len(checks) == 0 && hasNoReadyCondition(template) {
		g.lost.Addf(at.Field("readinessChecks"), "is missing, and no %v has a condition Ready, so that the composite is never ready; the node is ready once it exists", template["kind"])
		return nil
	}
	if len(checks) == 0 {
		checks = []readinessCheck{{Type: "MatchCondition", MatchCondition: &conditionMatch{Type: "Ready", Status: "True"}}}
	}
	var out []string
	for i := range checks {
		text, err := checks[i].expression(id)
		if err != nil {
			g.lost.Addf(at.Field("readinessChecks").Index(i), "%v", err)
			continue
		}
		out = append(out, "${"+text+"}")
	}
	return out
}

// hasNoReadyCondition says whether a kind is one of Kubernetes without a condition of type Ready. Many have no conditions at all, and
// an expression that reads one would be invalid.
func hasNoReadyCondition(template map[string]any) bool {
	apiVersion, _ := template["apiVersion"].(string)
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		return template["kind"] != "Pod" && template["kind"] != "Node"
	}
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

func (r *readinessCheck) expression(id string) (string, error) {
	switch r.Type {
	case "None":
		return id + `.metadata.name != ""`, nil
	case "MatchCondition":
		return id + ".status.conditions.exists(c, c.type == " + quoted(r.MatchCondition.Type) + " && c.status == " + quoted(r.MatchCondition.Status) + ")", nil
	}
	path, err := fieldpath.Parse(*r.FieldPath)
	if err != nil {
		return "", err
	}
	e, err := selected(expression{text: id}, path, r.Type != "NonEmpty")
	if err != nil {
		return "", err
	}
	switch r.Type {
	case "MatchString":
		return e.text + " == " + quoted(*r.MatchString), nil
	case "MatchInteger":
		return fmt.Sprint(e.text, " == ", *r.MatchInteger), nil
	case "MatchTrue":
		return e.text + " == true", nil
	case "MatchFalse":
		return e.text + " == false", nil
	}
	return e.text + ".hasValue()", nil
}
