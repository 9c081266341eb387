package observe

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Line is a line of an object as YAML.
type Line struct {
	// Text is the line with its indentation.
	Text string `json:"text"`
	// Field is the path of the value, if the line ends in one.
	Field object.Path `json:"field,omitempty"`
	// Managers own that value. Without any, it is a default, or the API server has set it.
	Managers []string `json:"managers,omitempty"`
}

// Lines returns an object as YAML, with the managers of each value, and how many lines of more than a limit are left out. It has no
// managed fields, no annotation with an earlier manifest, and no data of a Secret.
func Lines(o *unstructured.Unstructured, limit int) (lines []Line, omitted int) {
	p := linePrinter{of: o, owners: ownership.EntriesOf(o)}
	p.fields(o.Object, nil, "")
	return p.lines[:min(len(p.lines), limit)], max(len(p.lines)-limit, 0)
}

// linePrinter prints an object as lines of YAML.
type linePrinter struct {
	of     *unstructured.Unstructured
	owners func(path []any) []ownership.Entry
	lines  []Line
}

// firstFields are the fields that an object begins with; status is the last one.
var firstFields = []string{"apiVersion", "kind", "metadata", "name", "namespace"}

// lastApplied is the annotation of kubectl apply, which has all that was applied, data of Secrets among it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (p *linePrinter) fields(of map[string]any, path []any, indent string) {
	rank := func(name string) int {
		if i := slices.Index(firstFields, name); i >= 0 {
			return i
		}
		if name == "status" && len(path) == 0 {
			return len(firstFields) + 1
		}
		return len(firstFields)
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for _, name := range names {
		if len(path) > 0 && path[0] == "metadata" && (name == "managedFields" || name == lastApplied) {
			continue
		}
		p.value(indent+scalar(name)+":", of[name], append(slices.Clip(path), name), indent+"  ")
	}
}

// value prints a value behind the beginning of its line.
func (p *linePrinter) value(begin string, v any, path []any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			p.leaf(begin+" {}", path)
			return
		}
		p.lines = append(p.lines, Line{Text: begin})
		p.fields(v, path, indent)
	case []any:
		if len(v) == 0 {
			p.leaf(begin+" []", path)
			return
		}
		p.lines = append(p.lines, Line{Text: begin})
		for i, item := range v {
			p.item(item, append(slices.Clip(path), i), strings.TrimSuffix(indent, "  "))
		}
	default:
		text := "(hidden)"
		if !isSecretData(p.of, path) {
			text = scalar(v)
		}
		p.leaf(begin+" "+text, path)
	}
}

// item prints an item of a list: the first line of a map goes behind the dash.
func (p *linePrinter) item(v any, path []any, indent string) {
	fields, isMap := v.(map[string]any)
	if _, isList := v.([]any); isList {
		p.leaf(indent+"- "+inline(v), path)
		return
	}
	if !isMap || len(fields) == 0 {
		p.value(indent+"-", v, path, indent+"  ")
		return
	}
	first := len(p.lines)
	p.fields(fields, path, indent+"  ")
	p.lines[first].Text = indent + "- " + strings.TrimPrefix(p.lines[first].Text, indent+"  ")
}

func (p *linePrinter) leaf(text string, path []any) {
	line := Line{Text: text, Field: object.Path("").Steps(path...)}
	for _, e := range p.owners(path) {
		if !slices.Contains(line.Managers, e.Manager) {
			line.Managers = append(line.Managers, e.Manager)
		}
	}
	p.lines = append(p.lines, line)
}

// maxScalar bounds, in characters, a value in a line.
const maxScalar = 1000

// scalar is a value on one line of YAML.
func scalar(v any) string {
	raw, err := yaml.Marshal(v)
	text := strings.TrimSuffix(string(raw), "\n")
	if err != nil || strings.Contains(text, "\n") {
		return inline(v)
	}
	return short(text)
}

// inline is a value as JSON, which is YAML too.
func inline(v any) string {
	raw, _ := json.Marshal(v) // of an object, which is JSON
	return short(string(raw))
}

func short(text string) string {
	if runes := []rune(text); len(runes) > maxScalar {
		text = string(runes[:maxScalar-1]) + "…"
	}
	return text
}
