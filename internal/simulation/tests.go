package simulation

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation/deftest"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// StepResult is what a step of a test has led to.
type StepResult struct {
	// Failures say what is not as expected.
	Failures []string
	State    deftest.State
}

// RunTest runs a test of definitions, without an API server. Files are the objects that exist from the
// beginning. Source names the test file.
func RunTest(ctx context.Context, o server.ManagerOptions, t *deftest.Test, files []Applied, source string, timeout time.Duration) ([]StepResult,
	deftest.Coverage, error) {
	r := &testRun{test: t, files: files, source: source, namespace: t.Namespace}
	if r.namespace == "" {
		r.namespace = "default"
	}
	err := RunOffline(ctx, o, r.namespace, timeout, func(ctx context.Context, c *Offline) (bool, error) {
		if !c.Settled() {
			return false, errors.New("the controllers were still busy when the time was over; raise --wait")
		}
		c.decisions.setObserver(r.coverage.Add)
		return r.next(ctx, c)
	})
	return r.results, r.coverage, err
}

// stage is what comes next in a step.
type stage int

const (
	applying stage = iota
	observing
	checking
)

type testRun struct {
	test      *deftest.Test
	files     []Applied
	source    string
	namespace string
	coverage  deftest.Coverage

	begun   bool
	stage   stage
	missing []string // what a step should have observed or deleted
	results []StepResult
}

// next carries out the next stage that changes something.
func (r *testRun) next(ctx context.Context, c *Offline) (again bool, err error) {
	if !r.begun {
		r.begun = true
		if len(r.files) > 0 {
			return true, c.Apply(ctx, r.files...)
		}
	}
	for len(r.results) < len(r.test.Steps) {
		step := r.test.Steps[len(r.results)]
		switch r.stage {
		case applying:
			r.stage = observing
			if len(step.Apply) > 0 {
				return true, c.Apply(ctx, r.applied(step.Apply)...)
			}
		case observing:
			r.stage = checking
			if len(step.Observe)+len(step.Delete) > 0 {
				return true, r.change(ctx, c, step)
			}
		case checking:
			r.stage = applying
			r.check(c, step)
		}
	}
	return false, nil
}

func (r *testRun) applied(objects []deftest.Object) []Applied {
	out := make([]Applied, len(objects))
	for i, o := range objects {
		out[i] = Applied{Object: (&unstructured.Unstructured{Object: o}).DeepCopy(), Source: r.source}
	}
	return out
}

// change sets the observed states of a step, and deletes.
func (r *testRun) change(ctx context.Context, c *Offline, step deftest.Step) error {
	for _, o := range step.Observe {
		u := (&unstructured.Unstructured{Object: o}).DeepCopy()
		exists, err := c.Observe(ctx, u)
		if err != nil {
			return err
		}
		if !exists {
			r.missing = append(r.missing, object.KeyOf(u).String()+": does not exist and cannot be observed")
		}
	}
	for _, o := range step.Delete {
		u := (&unstructured.Unstructured{Object: o}).DeepCopy()
		exists, err := c.Delete(ctx, u)
		if err != nil {
			return err
		}
		if !exists {
			r.missing = append(r.missing, object.KeyOf(u).String()+": does not exist and cannot be deleted")
		}
	}
	return nil
}

func (r *testRun) check(c *Offline, step deftest.Step) {
	in := c.State()
	state := deftest.State{Rendered: preview.Render(in), Problems: in.Problems}
	for _, o := range in.Objects {
		if o.After != nil {
			state.Objects = append(state.Objects, o.After)
		}
	}
	r.results = append(r.results, StepResult{Failures: append(r.missing, step.Check(state, r.namespace)...), State: state})
	r.missing = nil
}
