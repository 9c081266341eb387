package preview

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// Rendered is an instance and what it consists of.
type Rendered struct {
	Instance *unstructured.Unstructured
	// Objects are in the order of their nodes: those that another reads come before it.
	Objects []*unstructured.Unstructured
	Waits   []Wait
	Skipped []Wait
	// Results are the warnings of functions. In a cluster they are events.
	Results []plan.Result
}

// Render returns the instances of a simulation, sorted by kind and name. Objects are those that the
// simulation has; they are cleaned of what a server adds and of Espalier's records, so that the result
// depends only on the files.
func Render(in Input) []Rendered {
	b := builder{in: in, owners: map[string]object.Key{}, nodes: map[object.Key]node{}}
	b.noteOwners()
	all := map[object.Key]*Rendered{}
	for key := range in.Decisions {
		all[key] = &Rendered{Waits: waitsOf(in.Decisions[key]), Skipped: skipped(in.Decisions[key]), Results: warnings(in.Decisions[key])}
	}
	order := map[object.Key]int{}
	for _, decided := range in.Decisions {
		for i, step := range decided.Steps {
			for _, o := range []*unstructured.Unstructured{step.Current, step.Object} {
				if o != nil {
					order[object.KeyOf(o)] = i + 1
				}
			}
		}
	}
	exist := slices.DeleteFunc(slices.Clone(in.Objects), func(o Object) bool { return o.After == nil })
	slices.SortFunc(exist, func(a, b Object) int {
		x, y := object.KeyOf(a.After), object.KeyOf(b.After)
		return cmp.Or(cmp.Compare(order[x], order[y]), x.Compare(y))
	})
	for _, o := range exist {
		if i := all[object.KeyOf(o.After)]; i != nil {
			i.Instance = Clean(o.After)
		}
		if owner, found := b.owners[o.After.GetLabels()[v1alpha1.ApplySetPartOfLabel]]; found && all[owner] != nil {
			all[owner].Objects = append(all[owner].Objects, Clean(o.After))
		}
	}
	addOperations(all, exist)
	var out []Rendered
	for _, key := range slices.SortedFunc(maps.Keys(all), object.Key.Compare) {
		if all[key].Instance != nil {
			out = append(out, *all[key])
		}
	}
	return out
}

// addOperations adds the operations, with the objects that they have applied.
func addOperations(to map[object.Key]*Rendered, exist []Object) {
	for _, o := range exist {
		if o.After.GroupVersionKind().GroupKind() != operationKind {
			continue
		}
		one := &Rendered{Instance: Clean(o.After)}
		refs, _, _ := unstructured.NestedSlice(o.After.Object, "status", "appliedResourceRefs")
		for _, ref := range refs {
			field := func(name string) string {
				text, _, _ := unstructured.NestedString(map[string]any{"ref": ref}, "ref", name)
				return text
			}
			key := object.Key{Group: schema.FromAPIVersionAndKind(field("apiVersion"), "").Group, Kind: field("kind"), Namespace: field("namespace"), Name: field("name")}
			for _, other := range exist {
				if object.KeyOf(other.After) == key {
					one.Objects = append(one.Objects, Clean(other.After))
				}
			}
		}
		to[object.KeyOf(o.After)] = one
	}
}

var operationKind = schema.GroupKind{Group: ops.GroupVersion.Group, Kind: ops.OperationKind}

// skipped are the nodes that are left out, and why.
func skipped(p plan.Plan) []Wait {
	var out []Wait
	for _, step := range p.Steps {
		if step.Action == plan.Skip {
			out = append(out, Wait{Node: step.Node, Message: step.Problem.Message})
		}
	}
	return out
}

// warnings are the results of functions that a person should know of. A fatal one is a problem as well, and is not repeated.
func warnings(p plan.Plan) []plan.Result {
	var out []plan.Result
	for _, result := range p.Results {
		if result.Warning && !strings.Contains(p.Problem.Message, result.Message) && !slices.Contains(out, result) {
			out = append(out, result)
		}
	}
	return out
}

// serverFields are the fields of metadata that an API server sets, or that are Espalier's records.
var serverFields = []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "finalizers", "ownerReferences", "selfLink"}

// bookkeepingPrefixes are those of labels and annotations that are not desired by an author.
var bookkeepingPrefixes = append([]string{"kro.run/"}, recordPrefixes...)

// Clean returns an object without what depends on a server, on time and on Espalier's records.
func Clean(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	for _, field := range serverFields {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		values, _, _ := unstructured.NestedStringMap(out.Object, "metadata", field)
		maps.DeleteFunc(values, func(key, value string) bool {
			return key == lastApplied || key == v1alpha1.ManagedByLabel && value == "kro" ||
				slices.ContainsFunc(bookkeepingPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		})
		unstructured.RemoveNestedField(out.Object, "metadata", field)
		if len(values) > 0 {
			_ = unstructured.SetNestedStringMap(out.Object, values, "metadata", field) // metadata is a map
		}
	}
	if status, ok := out.Object["status"]; ok {
		out.Object["status"] = withoutTimes(status)
		managed, _, _ := unstructured.NestedSlice(out.Object, "status", "managedResources")
		for _, m := range managed {
			if entry, is := m.(map[string]any); is {
				delete(entry, "uid")
			}
		}
		if len(managed) > 0 {
			_ = unstructured.SetNestedSlice(out.Object, managed, "status", "managedResources") // status is a map
		}
	}
	return out
}

// timedTexts are the parts of messages that say since when something waits.
var timedTexts = regexp.MustCompile(`, since [0-9TZ:.+-]+(, [0-9]+ attempts?)?`)

// withoutTimes returns a value without times, generations and counts of attempts.
func withoutTimes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range []string{"lastTransitionTime", "observedGeneration", "since", "lastUpdateTime", "attempts"} {
			delete(v, field)
		}
		for key, value := range v {
			v[key] = withoutTimes(value)
		}
	case []any:
		for i, item := range v {
			v[i] = withoutTimes(item)
		}
	case string:
		return timedTexts.ReplaceAllString(v, "")
	}
	return v
}

// YAML returns the instance and its objects as YAML documents. What is not known yet, nodes that are left
// out, and warnings are comments. Data of Secrets are shown: they come from the files.
func (r Rendered) YAML() (string, error) {
	var b strings.Builder
	for i, o := range append([]*unstructured.Unstructured{r.Instance}, r.Objects...) {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}
		b.WriteString("---\n")
		if i == 0 {
			b.WriteString("# " + object.KeyOf(o).String() + "\n")
			for _, w := range r.Waits {
				b.WriteString("# " + comment(w.String()))
			}
			for _, w := range r.Skipped {
				b.WriteString("# " + comment(w.Node+": left out: "+w.Message))
			}
			for _, result := range r.Results {
				b.WriteString("# " + comment("Warning "+result.Reason+": "+result.Message))
			}
		}
		b.Write(raw)
	}
	return b.String(), nil
}

// comment is a text in one line.
func comment(text string) string { return strings.Join(strings.Fields(text), " ") + "\n" }
