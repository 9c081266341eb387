package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation/deftest"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// Drawing says which instances are drawn.
type Drawing struct {
	// Namespace is that of namespaced objects without one.
	Namespace string
	// Instances is how many are drawn of a kind. The same seed draws the same instances.
	Instances int
	Seed      uint64
	// Timeout bounds each run of the controllers.
	Timeout time.Duration
}

// Fuzzing is the result of Fuzz.
type Fuzzing struct {
	// Instances is the number of instances that were drawn, and Refused that of those that the schema's
	// rules refuse.
	Instances, Refused int
	Findings           []FuzzFinding
}

// FuzzFinding is a problem of an instance that was drawn. Others with the same problem are left out.
type FuzzFinding struct {
	Problem  preview.Problem
	Instance *unstructured.Unstructured
}

// Fuzz draws instances of the kinds that files define, runs the controllers with them without an API server,
// and returns what fails: expressions that have no value for an instance, objects with invalid names, and the
// like.
func Fuzz(ctx context.Context, o server.ManagerOptions, files []Applied, drawing Drawing) (Fuzzing, error) {
	out := Fuzzing{}
	drawn := map[string]*unstructured.Unstructured{}
	begun, applied := false, false
	err := RunOffline(ctx, o, drawing.Namespace, drawing.Timeout, func(ctx context.Context, c *Offline) (bool, error) {
		switch {
		case !c.Settled():
			return false, errors.New("the controllers were still busy when the time was over; raise --wait, or draw fewer instances")
		case !begun:
			begun = true
			return true, c.Apply(ctx, files...)
		case !applied:
			applied = true
			if in := c.State(); len(in.Problems) > 0 {
				return false, fmt.Errorf("the files have problems: %s", in.Problems[0])
			}
			all, err := c.draw(files, drawing.Instances, drawing.Seed)
			if err != nil {
				return false, err
			}
			for _, o := range all {
				drawn[objectName(o.Object)] = o.Object
			}
			out.Instances = len(all)
			return true, c.Apply(ctx, all...)
		}
		in := c.State()
		for key, decided := range in.Decisions {
			in.Problems = append(in.Problems, absentInputs(key, decided)...)
		}
		slices.SortFunc(in.Problems, func(a, b preview.Problem) int { return strings.Compare(a.String(), b.String()) })
		out.collect(in.Problems, drawn)
		return false, nil
	})
	return out, err
}

// absentInputs are the waits for fields of the instance itself, which nothing but a change of it ends.
func absentInputs(instance object.Key, decided plan.Plan) []preview.Problem {
	var out []preview.Problem
	for _, step := range decided.Steps {
		for _, w := range step.Waits {
			if step.Action == plan.Defer && w.Reason == plan.WaitingForField && strings.HasPrefix(w.On, "schema.") {
				out = append(out, preview.Problem{Object: instance.String(), Reason: string(w.Reason),
					Message: w.Node + " waits for " + w.On + ", which this instance does not have: give it a default, make it required, or use ? or has()"})
			}
		}
	}
	return out
}

func objectName(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// draw draws instances of the kinds of definitions.
func (c *Offline) draw(files []Applied, instances int, seed uint64) ([]Applied, error) {
	var out []Applied
	defined := c.kinds.ListCRDs(func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return slices.ContainsFunc(files, func(f Applied) bool { return Defines(f.Object, crd.GroupKind(d)) })
	})
	slices.SortFunc(defined, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range defined {
		version := crd.StorageVersion(d)
		whole, _ := c.kinds.WholeCRD(crd.GroupKind(d))
		schema, err := crd.Structural(whole, version)
		if err != nil {
			return nil, err
		}
		g := deftest.Generator{Kind: crd.GroupKind(d).WithVersion(version), Schema: schema, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
			Random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // to be repeatable
		for i := range instances {
			out = append(out, Applied{Object: g.Instance(i, c.namespace), Source: fmt.Sprintf("seed %d", seed)})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the files define no kind")
	}
	return out, nil
}

// collect keeps one finding of each problem.
func (f *Fuzzing) collect(problems []preview.Problem, drawn map[string]*unstructured.Unstructured) {
	seen := map[string]bool{}
	for _, p := range problems {
		instance := drawn[p.Object]
		switch {
		case instance == nil:
			continue
		case p.Reason == "Refused":
			f.Refused++
			continue
		}
		what := p.Reason + strings.ReplaceAll(p.Message, instance.GetName(), "")
		if !seen[what] {
			seen[what] = true
			f.Findings = append(f.Findings, FuzzFinding{p, instance})
		}
	}
}
