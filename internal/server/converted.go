package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/convert"
	"github.com/espalier-dev/espalier/internal/deftest"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/preview"
	"github.com/espalier-dev/espalier/internal/simulation"
)

// Conversion is a comparison of a composition and of the graph definition that it was converted to.
type Conversion struct {
	// Instances is the number of instances that were drawn, Refused that of those that one of both refuses,
	// and Failed that of those that both fail to reconcile, which are not compared.
	Instances, Refused, Failed int
	// Differences are in the order of the instances.
	Differences []ConversionDifference
}

// ConversionDifference is an object or a status that is another one in both.
type ConversionDifference struct {
	// Instance is the name of the instance, and What the composed resource, "the status", "the instance" or
	// "the reconciliation".
	Instance, What string
	// Composition and Graph are the values as JSON; empty if there is none.
	Composition, Graph string
}

// ConversionInput is a conversion to compare.
type ConversionInput struct {
	// Composition is the Composition that was converted, with the definition of its kind, and Others are the other
	// objects of the files.
	Composition, Others []simulation.Applied
	// Converted is the result of the conversion.
	Converted convert.Result
}

// CompareConversion draws instances of the kind that was converted, half of them from the schema of each,
// runs the controllers with the composition and with the graph definition, each in a cluster in memory, and
// compares what the instances consist of, and their status. Objects whose kinds have a schema in the files
// get a status that is drawn from it, the same in both. Names that the controllers give are no difference.
func CompareConversion(ctx context.Context, o ManagerOptions, in ConversionInput, drawing Drawing) (Conversion, error) {
	run := func(of string, step OfflineStep) error {
		if err := RunOffline(ctx, o, drawing.Namespace, drawing.Timeout, step); err != nil {
			return fmt.Errorf("the %s: %w", of, err)
		}
		return nil
	}
	graph := append(slices.Clone(in.Others), simulation.Applied{Object: &unstructured.Unstructured{Object: in.Converted.Definition}, Source: "converted"})
	composition := append(slices.Clone(in.Others), in.Composition...)
	var drawn, ofComposition []simulation.Applied
	if err := run("graph definition", drawStep(graph, (drawing.Instances+1)/2, drawing.Seed, &drawn)); err != nil {
		return Conversion{}, err
	}
	if err := run("composition", drawStep(composition, drawing.Instances/2, drawing.Seed, &ofComposition)); err != nil {
		return Conversion{}, err
	}
	for i, d := range ofComposition {
		d.Object.SetName(fmt.Sprintf("fuzz-%d", len(drawn)))
		drawn = append(drawn, ofComposition[i])
		if spec, ok := d.Object.Object["spec"].(map[string]any); ok { // the fields of the controllers stay theirs
			maps.DeleteFunc(spec, func(field string, _ any) bool { return !slices.Contains(in.Converted.Spec, field) })
		}
	}
	byGraph := &conversionRun{drawn: drawn, seed: drawing.Seed, status: in.Converted.Status}
	byComposition := &conversionRun{drawn: drawn, seed: drawing.Seed, status: in.Converted.Status, ids: in.Converted.IDs}
	if err := run("graph definition", byGraph.step(graph)); err != nil {
		return Conversion{}, err
	}
	if err := run("composition", byComposition.step(composition)); err != nil {
		return Conversion{}, err
	}
	return differences(drawn, byComposition, byGraph), nil
}

// differences compares the results of both runs.
func differences(drawn []simulation.Applied, byComposition, byGraph *conversionRun) Conversion {
	out := Conversion{Instances: len(drawn)}
	for _, d := range drawn {
		name := d.Object.GetName()
		a, b := byComposition.results[name], byGraph.results[name]
		if a == nil || b == nil {
			out.Refused++
			if (a == nil) != (b == nil) {
				out.Differences = append(out.Differences, ConversionDifference{Instance: name, What: "the instance", Composition: existence(a), Graph: existence(b)})
			}
			continue
		}
		if a[failure] != "" && b[failure] != "" {
			out.Failed++
			continue
		}
		for _, what := range compared(a, b) {
			if a[what] != b[what] {
				out.Differences = append(out.Differences, ConversionDifference{name, what, a[what], b[what]})
			}
		}
	}
	return out
}

func existence(of map[string]string) string {
	if of == nil {
		return "is refused"
	}
	return "is accepted"
}

// compared is what of two results is compared: only the failure, if one of them fails.
func compared(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	if all[failure] != "" {
		return []string{failure}
	}
	return slices.Sorted(maps.Keys(all))
}

// drawStep draws instances of the kinds that files define.
func drawStep(files []simulation.Applied, instances int, seed uint64, into *[]simulation.Applied) OfflineStep {
	begun := false
	return func(ctx context.Context, c *Offline) (again bool, err error) {
		if !begun {
			begun = true
			return true, c.Apply(ctx, files...)
		}
		if in := c.State(); len(in.Problems) > 0 {
			return false, fmt.Errorf("it has problems: %s", in.Problems[0])
		}
		*into, err = c.draw(files, instances, seed)
		return false, err
	}
}

// conversionRun is a run of one of both.
type conversionRun struct {
	drawn []simulation.Applied
	seed  uint64
	// ids are the ids of nodes by their names; a name without one is its id.
	ids    map[string]string
	status []string

	begun, applied bool
	observed       map[object.Key]bool
	// results are by name of the instance: its objects by node, its status, and why it fails.
	results map[string]map[string]string
}

// The results that are not of a node: no id of a node has a space.
const (
	statusResult = "the status"
	failure      = "the reconciliation"
)

func (r *conversionRun) step(files []simulation.Applied) OfflineStep {
	return func(ctx context.Context, c *Offline) (bool, error) {
		switch {
		case !c.Settled():
			return false, errors.New("the controllers were still busy when the time was over; raise --wait, or draw fewer instances")
		case !r.begun:
			r.begun, r.observed = true, map[object.Key]bool{}
			return true, c.Apply(ctx, files...)
		case !r.applied:
			r.applied = true
			all := make([]simulation.Applied, len(r.drawn))
			for i, d := range r.drawn {
				all[i] = simulation.Applied{Object: d.Object.DeepCopy(), Source: d.Source}
			}
			return true, c.Apply(ctx, all...)
		}
		in := c.State()
		again, err := r.observe(ctx, c, in)
		if !again && err == nil {
			r.collect(in)
		}
		return again, err
	}
}

// nodes are the objects of instances, by the names of instances and the ids of nodes. Composed resources have
// the name of theirs in an annotation; those of a graph definition are in what was decided for the instance.
func (r *conversionRun) nodes(in preview.Input) map[string]map[string]*unstructured.Unstructured {
	exist := map[object.Key]*unstructured.Unstructured{}
	for _, o := range in.Objects {
		if o.After != nil {
			exist[object.KeyOf(o.After)] = o.After
		}
	}
	out := map[string]map[string]*unstructured.Unstructured{}
	for key, decided := range in.Decisions {
		of := map[string]*unstructured.Unstructured{}
		for _, step := range decided.Steps {
			if o := cmp.Or(step.Object, step.Current); o != nil && step.Action != plan.Skip && exist[object.KeyOf(o)] != nil {
				of[cmp.Or(r.ids[step.Node], step.Node)] = exist[object.KeyOf(o)]
			}
		}
		out[key.Name] = of
	}
	for _, o := range exist {
		composite, node := metav1.GetControllerOfNoCopy(o), o.GetAnnotations()[apiextensions.CompositionResourceNameAnnotation]
		if composite != nil && node != "" && out[composite.Name] != nil {
			out[composite.Name][cmp.Or(r.ids[node], node)] = o
		}
	}
	return out
}

// observe gives objects that are new a status, as their controllers would.
func (r *conversionRun) observe(ctx context.Context, c *Offline, in preview.Input) (again bool, err error) {
	for instance, nodes := range r.nodes(in) {
		for id, o := range nodes {
			key := object.KeyOf(o)
			if r.observed[key] {
				continue
			}
			r.observed[key] = true
			status, err := c.drawStatus(o, r.seed, instance+"/"+id)
			if err != nil {
				return false, err
			}
			if status == nil {
				continue
			}
			seen := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			seen.SetGroupVersionKind(o.GroupVersionKind())
			seen.SetNamespace(o.GetNamespace())
			seen.SetName(o.GetName())
			if _, err := c.Observe(ctx, seen); err != nil {
				return false, err
			}
			again = true
		}
	}
	return again, nil
}

// drawStatus draws a status from the schema of an object's kind; nil if none is known. The object is ready.
func (c *Offline) drawStatus(o *unstructured.Unstructured, seed uint64, of string) (map[string]any, error) {
	gvk := o.GroupVersionKind()
	defined, known := c.kinds.WholeCRD(gvk.GroupKind())
	if !known {
		return nil, nil
	}
	schema, err := crd.Structural(defined, gvk.Version)
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(of))
	g := deftest.Generator{Schema: schema, Random: rand.New(rand.NewPCG(seed, hash.Sum64()))} //nolint:gosec // to be repeatable
	status := g.Status()
	if status == nil {
		return nil, nil
	}
	if _, drawn := status["observedGeneration"]; drawn {
		status["observedGeneration"] = o.GetGeneration()
	}
	status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": metav1.Unix(0, 0).UTC().Format(time.RFC3339)}}
	return status, nil
}

// collect keeps what there is of each instance. Names and uids of objects, which are chosen differently, are
// replaced by the ids of their nodes.
func (r *conversionRun) collect(in preview.Input) {
	r.results = map[string]map[string]string{}
	nodes := r.nodes(in)
	for _, o := range in.Objects {
		if o.After == nil || !r.isDrawn(o.After) {
			continue
		}
		name := o.After.GetName()
		of := map[string]string{}
		var replace []string
		for id, o := range nodes[name] {
			replace = append(replace, string(o.GetUID()), "<uid of "+id+">", `"`+o.GetName()+`"`, `"<name of `+id+`>"`)
		}
		text := func(v any) string {
			raw, _ := json.Marshal(v)
			return strings.NewReplacer(append(replace, string(o.After.GetUID()), "<uid>")...).Replace(string(raw))
		}
		for id, o := range nodes[name] {
			of[id] = text(comparable(o))
		}
		status, _, _ := unstructured.NestedMap(o.After.Object, "status")
		maps.DeleteFunc(status, func(field string, _ any) bool { return !slices.Contains(r.status, field) })
		if len(status) > 0 {
			of[statusResult] = text(status)
		}
		for _, p := range in.Problems {
			if p.Object == object.KeyOf(o.After).String() {
				of[failure] = p.Message
			}
		}
		r.results[name] = of
	}
}

func (r *conversionRun) isDrawn(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(r.drawn, func(d simulation.Applied) bool {
		return d.Object.GroupVersionKind() == o.GroupVersionKind() && d.Object.GetName() == o.GetName()
	})
}

// comparable is an object without what names it and what belongs to one of both dialects.
func comparable(o *unstructured.Unstructured) map[string]any {
	out := preview.Clean(o)
	for _, field := range []string{"name", "generateName", "namespace", "ownerReferences"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		values, _, _ := unstructured.NestedStringMap(out.Object, "metadata", field)
		maps.DeleteFunc(values, func(key, _ string) bool {
			return strings.HasPrefix(key, "crossplane.io/") && key != "crossplane.io/external-name"
		})
		unstructured.RemoveNestedField(out.Object, "metadata", field)
		if len(values) > 0 {
			_ = unstructured.SetNestedStringMap(out.Object, values, "metadata", field) // metadata is a map
		}
	}
	delete(out.Object, "status")
	return out.Object
}
