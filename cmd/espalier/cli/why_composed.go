package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	xp "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	engine "github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/functions"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// explainComposedField explains a field of a composite, or of an object that a composite consists of; false for other objects. It runs the
// composite's pipeline on what is observed now, by the code of the controllers, without functions that run elsewhere.
func (i instance) explainComposedField(ctx context.Context, o *unstructured.Unstructured, path object.Path,
	files []*workspace.File) (explained observe.FieldExplanation, isComposed bool, err error) {
	of, err := i.compositeAround(ctx, o)
	if of == nil || err != nil {
		return explained, false, err
	}
	_, all, err := i.compositeOf(ctx, of)
	if err != nil {
		return explained, false, err
	}
	snapshot, isClaim, found := all.Snapshot(of.GroupVersionKind().GroupKind())
	if !found || isClaim {
		return explained, false, nil
	}
	state, err := i.gather(ctx, object.KeyOf(of))
	if err != nil {
		return explained, false, err
	}
	c := observe.ComposedField{Composite: of, Children: state.Children[inventory.SetOf(of)]}
	if key, _, claimed := inventory.ClaimedBy(of); claimed {
		if c.Claim, err = i.Get(ctx, key); err != nil {
			c.Problems = append(c.Problems, "the claim cannot be read: "+err.Error())
		}
	}
	c.Revision = observe.ExplainCompositionRevision(of, c.Claim, snapshot)
	i.runPipeline(ctx, snapshot, &c)
	explained = observe.ExplainComposedField(o, path, c)
	place, note := placeInComposition(snapshot, c.Revision, files)
	if note != "" {
		explained.Pipeline.Problems = append(explained.Pipeline.Problems, note)
	}
	explained.Locate(place)
	return explained, true, nil
}

// compositeAround reads the instance that an object belongs to, which a composite is itself; nil if it belongs to none, or to one of a graph
// definition.
func (i instance) compositeAround(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	of := o
	if inventory.SetOf(o) == "" {
		key, _, isChild := inventory.InstanceOf(o)
		if !isChild {
			return nil, nil
		}
		var err error
		if of, err = i.Get(ctx, key); of == nil || err != nil {
			return nil, err
		}
	}
	if _, isGraph := observe.DefinitionOf(of); isGraph {
		return nil, nil
	}
	return of, nil
}

// runPipeline runs the pipeline of a composite.
func (i instance) runPipeline(ctx context.Context, snapshot xrd.Snapshot, c *observe.ComposedField) {
	builtIn := functions.BuiltIn()
	isElsewhere := func(function string) bool { return builtIn[function] == nil }
	var here pipeline.Functions
	functions.Register(&here)
	var run []pipeline.Recorded
	composer := &composite.Composer{
		Snapshot: snapshot, Now: time.Now, Runner: pipeline.FirstOf{&here, elsewhere{}},
		Record: func(one pipeline.Recorded) { run = append(run, one) },
	}
	facts := plan.Facts{Instance: c.Composite, Owned: map[string][]*unstructured.Unstructured{}, Now: time.Now()}
	for _, child := range c.Children {
		facts.Owned[inventory.Node(child)] = append(facts.Owned[inventory.Node(child)], child)
	}
	desired, err := engine.ComposeReading(ctx, composer, facts, func(need plan.Need) plan.Lookup {
		run = nil // it begins again
		return i.lookup(ctx, need)
	})
	if err == nil && desired.Problem.Reason != "" && len(run) == 0 {
		err = fmt.Errorf("%s", desired.Problem.Message)
	}
	if err == nil {
		c.Steps, err = functions.Steps(run, isElsewhere)
	}
	c.Desired = map[string]map[string]any{}
	for n := range desired.Nodes {
		if o := desired.Nodes[n].Object; o != nil {
			c.Desired[desired.Nodes[n].ID] = o.Object
		}
	}
	if err != nil {
		c.Problems = append(c.Problems, err.Error())
	}
}

// elsewhere stands for functions that cannot be run here: they change nothing.
type elsewhere struct{}

// Run implements pipeline.Runner.
func (elsewhere) Run(_ context.Context, _ string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: request.GetMeta().GetTag()}, Desired: request.GetDesired(), Context: request.GetContext()}, nil
}

// placeInComposition returns the file, line and column of a field of a composition, if a file has it. The note says that the file has
// another pipeline than the revision that composes the composite.
func placeInComposition(snapshot xrd.Snapshot, revision *observe.Revision, files []*workspace.File) (place func(object.Path) string, note string) {
	nowhere := func(object.Path) string { return "" }
	at := slices.IndexFunc(snapshot.Revisions, func(r *xp.CompositionRevision) bool { return r.Name == revision.Name })
	for _, f := range files {
		for _, d := range f.Documents() {
			if d.Object.GetName() != revision.Of.Name || d.Object.GetKind() != xp.CompositionKind {
				continue
			}
			if at < 0 || !samePipeline(d.Object, snapshot.Revisions[at]) {
				note = fmt.Sprintf("the pipeline of %s differs from that of revision %s; line numbers can differ", f.Name, revision.Name)
			}
			return func(p object.Path) string {
				at := d.Range(p).Start
				return fmt.Sprintf("%s:%d:%d", f.Name, at.Line, at.Column)
			}, note
		}
	}
	return nowhere, ""
}

// samePipeline says whether a composition has the pipeline of a revision.
func samePipeline(c *unstructured.Unstructured, r *xp.CompositionRevision) bool {
	steps, _, _ := unstructured.NestedSlice(c.Object, "spec", "pipeline")
	raw, err := json.Marshal(r.Spec.Pipeline)
	var of []any
	if err == nil {
		err = json.Unmarshal(raw, &of)
	}
	return err == nil && object.Digest(steps) == object.Digest(of)
}
