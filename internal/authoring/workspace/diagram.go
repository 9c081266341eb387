package workspace

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
)

// Diagram is the drawing of a definition or a composition.
type Diagram struct {
	Document *Document
	diagram.Diagram
}

// Diagrams draws the definitions and Graphs that compile and the compositions that can be decoded, sorted by file and place.
func (w *Workspace) Diagrams() []Diagram {
	var out []Diagram
	for _, g := range w.graphs {
		out = append(out, Diagram{g.Definition, g.Diagram()})
	}
	out = append(out, w.standalone...)
	for _, d := range w.Documents(CompositionKind) {
		c := &v1.Composition{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, c) == nil {
			out = append(out, Diagram{d, w.drawComposition(c)})
		}
	}
	return out
}

func (w *Workspace) drawComposition(c *v1.Composition) diagram.Diagram {
	composite := schema.FromAPIVersionAndKind(c.Spec.CompositeTypeRef.APIVersion, c.Spec.CompositeTypeRef.Kind)
	p := &pipelineDrawing{w: w, composite: composite}
	p.Title = c.Name
	p.Nodes = []diagram.Node{{ID: "composite", Title: composite.Kind, Lines: []string{"the composite"}}}
	before := "composite"
	for _, step := range c.Spec.Pipeline {
		id := "step " + step.Step
		p.Nodes = append(p.Nodes, diagram.Node{ID: id, Title: step.Step, Lines: []string{step.FunctionRef.Name}, Shape: diagram.Rounded})
		p.Edges = append(p.Edges, diagram.Edge{From: before, To: id})
		before = id
		var input map[string]any
		if step.Input == nil || utiljson.Unmarshal(step.Input.Raw, &input) != nil {
			continue
		}
		name := w.builtInNameOf(step)
		if d := graph.DialectOf(name); d != nil {
			p.addGraph(d, id, input)
		}
		if name == patchandtransform.Name || name == patchandtransform.PackageName {
			p.addTemplates(id, input)
		}
	}
	return p.Diagram
}

type pipelineDrawing struct {
	diagram.Diagram
	w         *Workspace
	composite schema.GroupVersionKind
}

func (p *pipelineDrawing) addGraph(d *graph.Dialect, step string, input map[string]any) {
	compiled, _ := d.Compile(input, p.composite, p.w.Lookup)
	if compiled == nil {
		return
	}
	below := compiled.Diagram()
	instance := below.Nodes[0].ID // it is the step here
	for _, n := range below.Nodes[1:] {
		n.ID = step + "/" + n.ID
		p.Nodes = append(p.Nodes, n)
	}
	for _, e := range below.Edges {
		if e.To = step + "/" + e.To; e.From == instance {
			e.From = step
		} else {
			e.From = step + "/" + e.From
		}
		p.Edges = append(p.Edges, e)
	}
}

type flow struct{ resource, field string }

// A resource that reads a field of the composite depends on the resource that writes it: the edge has the field's name.
func (p *pipelineDrawing) addTemplates(step string, raw map[string]any) {
	input, _, _ := patchandtransform.Decode(raw)
	var reads, writes []flow
	for _, r := range input.Templates() {
		if r.Name == "" {
			continue // the environment
		}
		id := step + "/" + r.Name
		kind, _ := r.Base["kind"].(string)
		p.Nodes = append(p.Nodes, diagram.Node{ID: id, Title: r.Name, Lines: []string{kind}})
		p.Edges = append(p.Edges, diagram.Edge{From: step, To: id})
		for _, f := range r.Fields {
			switch {
			case !f.OfComposite:
			case f.Writes:
				writes = append(writes, flow{id, f.Path})
			default:
				reads = append(reads, flow{id, f.Path})
			}
		}
	}
	for _, to := range writes {
		for _, from := range reads {
			if overlaps(to.field, from.field) {
				p.Edges = append(p.Edges, diagram.Edge{From: to.resource, To: from.resource, Label: from.field})
			}
		}
	}
}

func overlaps(a, b string) bool {
	inside := func(outer, inner string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return inside(a, b) || inside(b, a)
}
