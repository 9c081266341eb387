package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is something that happens. It returns what was done and what came of it; an error ends the run.
type step struct {
	name string
	// weight is how likely the step is, compared with others.
	weight int
	do     func(context.Context) (string, error)
}

// draw draws the next step.
func (s *soak) draw() step {
	steps := []step{
		{"create an instance", 24, s.createInstance},
		{"change an instance", 14, s.changeInstance},
		{"delete an instance", 8, s.deleteInstance},
		{"recreate an instance", 6, s.recreateInstance},
		{"delete a child", 8, s.deleteChild},
		{"edit a child", 7, s.editChild},
		{"add a finalizer", 5, s.addFinalizer},
		{"remove a finalizer", 6, s.removeFinalizer},
		{"change a definition", 9, s.changeDefinition},
		{"break a definition", 3, s.breakDefinition},
		{"mend a definition", 4, s.mendDefinition},
		{"delete a definition", 2, s.deleteDefinition},
		{"delete a namespace", 1, s.deleteNamespace},
		{"delete the foreign kind", 1, s.deleteForeignKind},
		{"install the foreign kind", 2, s.installForeignKind},
		{"move the clock", 5, s.moveClock},
		{"restart the controllers", 1, s.restartControllers},
		{"kill the controllers", 2, s.killAndStart},
	}
	if !s.brief {
		steps = append(steps, step{"restart the API server", 1, s.restartPlane})
	}
	if s.proxy != nil {
		steps = append(steps, step{"disturb the connection", 25, s.disturb})
	}
	total := 0
	for _, one := range steps {
		total += one.weight
	}
	at := s.random.IntN(total)
	for _, one := range steps {
		if at -= one.weight; at < 0 {
			return one
		}
	}
	return steps[0] // not reached: the weights add up
}

// outcome is a step's text: a refused request is no failure of the run, since objects may be terminating
// and kinds not served. What was intended is done before the comparison.
func outcome(ctx context.Context, what string, err error) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return fmt.Sprintf("%s: refused: %.200s", what, err), nil
	}
	return what, nil
}

func (s *soak) createInstance(ctx context.Context) (string, error) {
	i := s.model.newInstance(s.random)
	if i == nil {
		return "of none", nil
	}
	s.model.instances = append(s.model.instances, i)
	return outcome(ctx, i.describe(), s.create(ctx, i.object()))
}

func (s *soak) changeInstance(ctx context.Context) (string, error) {
	i := pick(s.random, s.model.instances)
	if i == nil {
		return "of none", nil
	}
	i.draw(s.random)
	i.changed = true
	return outcome(ctx, i.describe(), s.apply(ctx, i.object()))
}

func (i *instance) describe() string {
	return fmt.Sprintf("%s word=%s count=%d flag=%t items=%v", i.key, i.word, i.count, i.flag, i.items)
}

func (s *soak) deleteInstance(ctx context.Context) (string, error) {
	i := pick(s.random, s.model.instances)
	policy := pick(s.random, []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan})
	if i == nil {
		return "of none", nil
	}
	if i.kind == boxKind && policy == metav1.DeletePropagationOrphan {
		policy = metav1.DeletePropagationBackground // orphans lose the annotation by which they are recognized
	}
	if s.proxy != nil && (i.changed || s.model.served(i.kind).changed) {
		policy = metav1.DeletePropagationBackground // it may still have the children of its former spec
	}
	return s.removeInstance(ctx, i, policy)
}

func (s *soak) removeInstance(ctx context.Context, i *instance, policy metav1.DeletionPropagation) (string, error) {
	there := map[key]bool{}
	if !i.changed {
		for _, kind := range objectKinds {
			objects, err := s.list(ctx, kind)
			if err != nil {
				return "", err
			}
			for n := range objects {
				there[keyOf(&objects[n])] = objects[n].GetDeletionTimestamp() == nil
			}
		}
	}
	s.model.remove(i, policy == metav1.DeletePropagationOrphan, func(k key) bool { return there[k] })
	return outcome(ctx, fmt.Sprintf("%s %s", i.key, policy), s.delete(ctx, i.key, policy))
}

// recreateInstance deletes an instance and creates one of the same name, which is refused while the
// former one is terminating.
func (s *soak) recreateInstance(ctx context.Context) (string, error) {
	i := pick(s.random, s.model.instances)
	if i == nil || !s.model.isReusable(i) {
		return "of none", nil
	}
	text, err := s.removeInstance(ctx, i, metav1.DeletePropagationBackground)
	if err != nil {
		return "", err
	}
	again := &instance{key: i.key, changed: true}
	again.draw(s.random)
	s.model.instances = append(s.model.instances, again)
	return outcome(ctx, text+" as "+again.describe(), s.create(ctx, again.object()))
}

func (s *soak) deleteChild(ctx context.Context) (string, error) {
	k := pick(s.random, s.model.namedChildren())
	policy := pick(s.random, []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground})
	if k == (key{}) {
		return "of none", nil
	}
	return outcome(ctx, fmt.Sprintf("%s %s", k, policy), s.delete(ctx, k, policy))
}

func (s *soak) editChild(ctx context.Context) (string, error) {
	k := pick(s.random, s.model.namedChildren())
	value := fmt.Sprintf("edited%d", s.random.IntN(1000))
	if k == (key{}) {
		return "of none", nil
	}
	return outcome(ctx, fmt.Sprintf("%s to %s", k, value), s.patch(ctx, k, valuePatch(k.kind, value)))
}

func (s *soak) addFinalizer(ctx context.Context) (string, error) {
	of := s.model.namedChildren()
	for _, i := range s.model.instances {
		of = append(of, i.key)
	}
	k := pick(s.random, of)
	if k == (key{}) {
		return "of none", nil
	}
	s.withFinalizer = append(s.withFinalizer, k)
	return outcome(ctx, k.String(), s.setFinalizer(ctx, k, true))
}

func (s *soak) removeFinalizer(ctx context.Context) (string, error) {
	k := pick(s.random, s.withFinalizer)
	if k == (key{}) {
		return "of none", nil
	}
	s.withFinalizer = slices.DeleteFunc(s.withFinalizer, func(o key) bool { return o == k })
	return outcome(ctx, k.String(), s.setFinalizer(ctx, k, false))
}

func (s *soak) changeDefinition(ctx context.Context) (string, error) {
	k := pick(s.random, s.model.kinds)
	what := k.kind + ": " + k.change(s.random)
	k.changed = true
	if k.absent || k.broken {
		return what + ", once it is mended", nil
	}
	return outcome(ctx, what, s.applyAll(ctx, k))
}

func (s *soak) breakDefinition(ctx context.Context) (string, error) {
	k := pick(s.random, s.model.kinds)
	objects := k.faulty(s.random)
	if k.absent {
		return "of none", nil
	}
	k.broken = true
	for _, o := range objects {
		if text, err := outcome(ctx, k.kind, s.apply(ctx, o)); text != k.kind || err != nil {
			return text, err
		}
	}
	return k.kind, nil
}

func (s *soak) mendDefinition(ctx context.Context) (string, error) {
	at := slices.IndexFunc(s.model.kinds, func(k *served) bool { return k.broken && !k.absent })
	if at < 0 {
		return "of none", nil
	}
	k := s.model.kinds[at]
	k.broken = false
	return outcome(ctx, k.kind, s.applyAll(ctx, k))
}

func (s *soak) applyAll(ctx context.Context, k *served) error {
	for _, o := range k.objects() {
		if err := s.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// deleteDefinition deletes a definition before its instances, after them, or without them.
func (s *soak) deleteDefinition(ctx context.Context) (string, error) {
	k := pick(s.random, s.model.kinds)
	how := pick(s.random, []string{"before its instances", "after its instances", "without its instances"})
	if k.absent {
		return "of none", nil
	}
	if k.kind == partKind {
		how = "without its instances" // other definitions keep creating instances
	}
	if k.kind == boxKind {
		how = "after its instances"
	}
	k.absent, k.broken, k.changed = true, false, true
	definition := keyOf(k.objects()[0])
	remove := func() error {
		if how == "without its instances" {
			if err := s.patch(ctx, definition, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kro.run/allow-orphans": "true"}}}); err != nil {
				return err
			}
		}
		return s.delete(ctx, definition, metav1.DeletePropagationBackground)
	}
	if how == "before its instances" {
		if text, err := outcome(ctx, k.kind, remove()); text != k.kind || err != nil {
			return text, err
		}
	}
	if how != "without its instances" {
		for _, i := range slices.Clone(s.model.instances) {
			if i.kind != k.kind {
				continue
			}
			if text, err := s.removeInstance(ctx, i, metav1.DeletePropagationBackground); err != nil {
				return text, err
			}
		}
	}
	if how == "before its instances" {
		return k.kind + " " + how, nil
	}
	return outcome(ctx, k.kind+" "+how, remove())
}

func (s *soak) deleteNamespace(ctx context.Context) (string, error) {
	name := namespaceName(s.random.IntN(namespaces))
	s.model.removeNamespace(name)
	return outcome(ctx, name, s.delete(ctx, key{"Namespace", "", name}, metav1.DeletePropagationBackground))
}

func (s *soak) deleteForeignKind(ctx context.Context) (string, error) {
	maps.DeleteFunc(s.model.left, func(k key, _ left) bool { return k.kind == widgetKind }) // they are deleted with it
	return outcome(ctx, widgetKind, s.delete(ctx, keyOf(widgetCRD()), metav1.DeletePropagationBackground))
}

func (s *soak) installForeignKind(ctx context.Context) (string, error) {
	return outcome(ctx, widgetKind, s.apply(ctx, widgetCRD()))
}

// moveClock sets the controllers' clock forward or back.
func (s *soak) moveClock(context.Context) (string, error) {
	by := time.Duration(s.random.Int64N(int64(24*time.Hour))) - 12*time.Hour
	if s.random.IntN(2) == 0 {
		by /= 60
	}
	s.clock.offset.Add(int64(by))
	return by.String(), nil
}

func (s *soak) restartControllers(ctx context.Context) (string, error) {
	if err := s.stopControllers(); err != nil {
		return "", err
	}
	return "", s.startControllers(ctx)
}

func (s *soak) killAndStart(ctx context.Context) (string, error) {
	text := s.killControllers(ctx, s.random.IntN(3) > 0)
	return text, s.startControllers(ctx)
}

// restartPlane restarts the API server while the controllers run.
func (s *soak) restartPlane(ctx context.Context) (string, error) {
	kill := s.random.IntN(2) == 0
	if err := s.stopPlane(kill); err != nil {
		return "", err
	}
	address := s.plane.Config().Host
	if err := s.startPlane(ctx); err != nil {
		return "", err
	}
	if s.plane.Config().Host != address {
		return "", errors.New("another program has taken the port of the API server")
	}
	return fmt.Sprintf("killed: %t", kill), nil
}
