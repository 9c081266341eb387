package cloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// check refuses a world that no calls can have made. Everything else relies on it: that
// properties are there and of their type, that what is referred to exists, that who is
// busy knows with what.
func (w *world) check() error {
	return errors.Join(
		each(w.treatments, w.checkTreatment), each(w.resources, w.checkRow), each(w.ghosts, checkGhost),
		each(w.operations, w.checkJob), each(w.tokens, w.checkToken), each(w.letters, w.checkLetter), w.checkCounters(),
	)
}

// each finds the first row, in the order of their ids, that is refused.
func each[R keyed](t table[R], check func(R) error) error {
	for _, id := range slices.Sorted(maps.Keys(t.rows)) {
		if err := check(t.rows[id]); err != nil {
			return fmt.Errorf("%T %s: %w", t.rows[id], id, err)
		}
	}
	return nil
}

func (w *world) checkCounters() error {
	for i, f := range w.Faults {
		if err := f.check(); err != nil {
			return fmt.Errorf("fault %d: %w", i, err)
		}
	}
	return w.Chaos.check()
}

func (w *world) checkTreatment(t treatment) error {
	if !t.Type.known() {
		return fmt.Errorf("no such type")
	}
	return t.Behaviour.check()
}

func (w *world) checkRow(r row) error {
	if err := checkGist(r); err != nil {
		return err
	}
	if r.Serial < 1 || r.Serial > w.Serial {
		return fmt.Errorf("serial %d of %d", r.Serial, w.Serial)
	}
	needs := r.Properties.needs()
	if !r.Next.IsZero() {
		needs = append(needs, r.Next.needs()...)
	}
	for _, n := range needs {
		if needed, ok := w.resources.rows[Key{n.kind, r.Scope, n.id}.id()]; !ok || needed.State == Deleting {
			return fmt.Errorf("%s: there is no %s %s", n.field, n.kind, n.id)
		}
	}
	if !r.Next.IsZero() {
		if err := checkSuccessor(r.Next, r); err != nil {
			return err
		}
	}
	if !r.State.busy() {
		if r.Operation != 0 || !r.Next.IsZero() {
			return fmt.Errorf("%s, and there is an operation", r.State)
		}
		return nil
	}
	j := w.operations.rows[jobID(r.Operation)]
	verb := map[State]Verb{Creating: VerbCreate, Updating: VerbUpdate, Deleting: VerbDelete}[r.State]
	if j.Status != Running || j.Serial != r.Serial || j.Verb != verb || (r.State == Updating) == r.Next.IsZero() {
		return fmt.Errorf("%s, and operation %d doesn't do it", r.State, r.Operation)
	}
	return nil
}

// checkGist refuses a resource for what it is by itself.
func checkGist(r row) error {
	switch {
	case r.Properties.IsZero() || r.Properties.Type() != r.Type:
		return fmt.Errorf("the properties are not those of a %s", r.Type)
	case !slices.Contains([]State{Creating, Active, Updating, Deleting, Failed}, r.State):
		return fmt.Errorf("state %q", r.State)
	case !scopes.MatchString(r.Scope):
		return fmt.Errorf("scope %q", r.Scope)
	case r.Outputs.Objects < 0:
		return fmt.Errorf("%d objects", r.Outputs.Objects)
	}
	if err := checkID("id", r.ID); err != nil {
		return err
	}
	if err := checkTags(r.Tags); err != nil {
		return err
	}
	return r.Properties.check()
}

func checkGhost(g ghost) error { return checkGist(g.Row) }

func (w *world) checkJob(j job) error {
	switch {
	case !j.Verb.changes() || !slices.Contains([]Status{Running, Succeeded, FailedOperation}, j.Status):
		return fmt.Errorf("%s is %s", j.Verb, j.Status)
	case j.Number < 1 || j.Number > w.Operation:
		return fmt.Errorf("number %d of %d", j.Number, w.Operation)
	case (j.Status == FailedOperation) != (j.Error != nil):
		return fmt.Errorf("is %s, and its error doesn't say so", j.Status)
	case j.Status == Running && w.resources.rows[j.Resource.id()].Operation != j.Number:
		return fmt.Errorf("is running, and %s doesn't know", j.Resource)
	}
	return nil
}

func (w *world) checkToken(t token) error {
	if _, ok := w.operations.rows[jobID(t.Operation)]; !ok {
		return fmt.Errorf("there is no operation %d", t.Operation)
	}
	return nil
}

func (w *world) checkLetter(l letter) error {
	q := l.Request
	switch {
	case l.Number < 1 || l.Number > w.Letter:
		return fmt.Errorf("number %d of %d", l.Number, w.Letter)
	case !q.Verb.changes():
		return fmt.Errorf("verb %q", q.Verb)
	case q.Verb == VerbCreate && (q.Properties.IsZero() || q.Properties.Type() != q.Key.Type || q.Key.ID != ""):
		return fmt.Errorf("the properties are not those of a %s", q.Key.Type)
	}
	return l.Fault.check()
}
