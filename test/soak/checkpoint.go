package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// checkpoint mends what the steps have broken, and waits until the cluster is as the model says and
// the controllers write no more.
func (s *soak) checkpoint(ctx context.Context) error {
	for _, k := range s.withFinalizer {
		if err := s.setFinalizer(ctx, k, false); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	s.withFinalizer = nil
	if s.proxy != nil {
		s.proxy.setFaults(newFaults(0))
	}
	if err := s.awaitKilled(); err != nil {
		return err
	}
	if err := s.await(ctx, "mend the cluster", s.mend); err != nil {
		return err
	}
	s.log.step("mended")
	if err := s.removeLeft(ctx); err != nil {
		return err
	}
	if err := s.await(ctx, "compare with the model", s.verify); err != nil {
		return err
	}
	if err := s.await(ctx, "wait for the last write", s.isQuiet); err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return fmt.Errorf("once nothing is written any more: %w", err)
	}
	s.log.step("compared")
	s.model.settle()
	return nil
}

// mend brings the user's objects to the state of the model. It returns an error while that has to wait.
func (s *soak) mend(ctx context.Context) error {
	var problems []error
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	for n := range namespaces {
		note(namespaceName(n), s.restore(ctx, newObject(key{"Namespace", "", namespaceName(n)}, map[string]any{})))
	}
	note(widgetKind, s.restore(ctx, widgetCRD()))
	for _, k := range s.model.kinds {
		if err := s.restore(ctx, k.objects()...); err != nil {
			note(k.kind, err)
			continue
		}
		k.absent, k.broken = false, false
		o, err := s.get(ctx, keyOf(k.objects()[0]))
		if err != nil {
			return err
		}
		note("the definition of "+k.kind, isServed(o))
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, kind := range objectKinds[3:] {
		note(kind, s.mendInstances(ctx, kind))
	}
	return errors.Join(problems...)
}

// restore applies objects unless they are terminating.
func (s *soak) restore(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		found, err := s.get(ctx, keyOf(o))
		if err != nil {
			return err
		}
		if found != nil && found.GetDeletionTimestamp() != nil {
			if o.GetKind() == "CustomResourceDefinition" {
				s.touch(ctx, keyOf(o))
			}
			return errors.New("is still terminating")
		}
		if err := s.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// touch changes a terminating CustomResourceDefinition. Where the API server fails to delete the objects
// of the kind, it retries with growing delay, and at once after a change.
func (s *soak) touch(ctx context.Context, k key) {
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"soak.example.com/touched": time.Now().Truncate(5 * time.Second).String()}}}
	if err := s.patch(ctx, k, change); err != nil {
		s.log.step("touch %s: %v", k, err)
	}
}

// mendInstances creates the missing instances of a kind and corrects the others, and waits for those that
// are to be gone.
func (s *soak) mendInstances(ctx context.Context, kind string) error {
	objects, err := s.list(ctx, kind)
	if err != nil {
		return err
	}
	found := map[key]*unstructured.Unstructured{}
	for n := range objects {
		found[keyOf(&objects[n])] = &objects[n]
	}
	var problems []error
	for _, i := range s.model.instances {
		if i.kind != kind {
			continue
		}
		o := found[i.key]
		delete(found, i.key)
		if o != nil && o.GetDeletionTimestamp() != nil {
			problems = append(problems, fmt.Errorf("%s is still terminating", i.key))
			continue
		}
		if err := s.apply(ctx, i.object()); err != nil {
			problems = append(problems, err)
		}
	}
	for k, o := range found {
		if o.GetDeletionTimestamp() != nil && kind != partKind { // parts may be children
			problems = append(problems, fmt.Errorf("%s is still terminating: %s", k, conditionMessage(o)))
		}
	}
	return errors.Join(problems...)
}

func conditionMessage(o *unstructured.Unstructured) string {
	return testkit.ConditionReason(o, "Ready") + " " + testkit.ConditionMessage(o, "Ready")
}

// removeLeft checks the objects that instances have left in place, and deletes them.
func (s *soak) removeLeft(ctx context.Context) error {
	for _, k := range slices.SortedFunc(maps.Keys(s.model.left), compareKeys) {
		how := s.model.left[k]
		o, err := s.get(ctx, k)
		switch {
		case err != nil:
			return err
		case o == nil && how.required:
			return fmt.Errorf("%s was to stay when its instance was deleted, and is gone", k)
		case o == nil:
			continue
		}
		labelled := false
		for label := range o.GetLabels() {
			labelled = labelled || strings.HasPrefix(label, "applyset.kubernetes.io/part-of") || label == "kro.run/node-id"
		}
		if labelled && !how.labelled {
			return fmt.Errorf("%s stays without an instance, and has the labels of a child: %s", k, testkit.JSON(o))
		}
		if err := s.delete(ctx, k, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}

// quietPeriod is how long the controllers may not write to count as at rest.
const quietPeriod = time.Second

// isQuiet fails while the controllers write or, through a proxy, send any other request than a watch.
func (s *soak) isQuiet(ctx context.Context) error {
	before, requests := s.controllers.writes.Load(), s.requests()
	if !pauseFor(ctx, quietPeriod) {
		return context.Cause(ctx)
	}
	if n := s.requests() - requests; n > 0 {
		return fmt.Errorf("the controllers have sent %d requests within %s although nothing changes", n, quietPeriod)
	}
	if n := s.controllers.writes.Load() - before; n > 0 {
		return fmt.Errorf("the controllers have sent %d writes within %s although nothing changes", n, quietPeriod)
	}
	return nil
}

// requests counts the requests through the proxy.
func (s *soak) requests() int64 {
	if s.proxy == nil {
		return 0
	}
	return s.proxy.requests.Load()
}

// maxProblems is how many differences a comparison lists.
const maxProblems = 12

// verify compares the cluster with the model.
func (s *soak) verify(ctx context.Context) error {
	var problems []string
	for _, k := range s.model.kinds {
		o, err := s.get(ctx, keyOf(k.objects()[0]))
		if err != nil {
			return err
		}
		if problem := isServed(o); problem != nil {
			problems = append(problems, fmt.Sprintf("the definition of %s %s", k.kind, problem))
		}
	}
	want, found := s.model.expected(), map[key][]*unstructured.Unstructured{}
	for _, kind := range objectKinds {
		objects, err := s.list(ctx, kind)
		if err != nil {
			return err
		}
		for n := range objects {
			k := keyOf(&objects[n])
			found[k] = append(found[k], &objects[n])
		}
	}
	for k, objects := range found {
		if _, ok := want[k]; !ok {
			problems = append(problems, fmt.Sprintf("%s must not exist: %s", k, testkit.JSON(objects[0])))
		}
	}
	for k, w := range want {
		switch objects := found[k]; len(objects) {
		case 0:
			problems = append(problems, fmt.Sprintf("%s of %s does not exist", k, w.owner))
		case 1:
			if problem := w.check(objects[0], found); problem != "" {
				problems = append(problems, fmt.Sprintf("%s %s", k, problem))
			}
		default:
			problems = append(problems, fmt.Sprintf("%s exists as %d objects", k, len(objects)))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New(strings.Join(problems[:min(len(problems), maxProblems)], "\n"))
}

// isServed checks the conditions of a definition.
func isServed(o *unstructured.Unstructured) error {
	if o != nil && o.GetKind() == "CompositeResourceDefinition" {
		if testkit.ConditionStatus(o, "Established") != "True" {
			return errors.New("is not established: " + testkit.ConditionMessage(o, "Established"))
		}
		return nil
	}
	return testkit.IsReady(o)
}

// check returns what is wrong with an object; empty if nothing is.
func (w wanted) check(o *unstructured.Unstructured, all map[key][]*unstructured.Unstructured) string {
	if o.GetDeletionTimestamp() != nil {
		return "is terminating: " + conditionMessage(o)
	}
	if value := valueOf(o); value != w.value {
		return fmt.Sprintf("has the value %q, not %q", value, w.value)
	}
	if w.owner != (key{}) {
		owner := all[w.owner]
		if len(owner) != 1 || ownerOf(o) != string(owner[0].GetUID()) {
			return "belongs to another object than " + w.owner.String() + ": " + testkit.JSON(o)
		}
	}
	if w.status == nil {
		return ""
	}
	if err := testkit.IsReady(o); err != nil {
		return err.Error()
	}
	status := map[string]string{}
	for field := range w.status {
		status[field], _, _ = unstructured.NestedString(o.Object, "status", field)
	}
	if !maps.Equal(status, w.status) {
		return fmt.Sprintf("has the status %v, not %v", status, w.status)
	}
	return ""
}

// ownerOf is the UID of the instance that an object is a child of.
func ownerOf(o *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return string(owner.UID)
	}
	return o.GetLabels()["kro.run/instance-id"]
}

// deleteAll deletes everything that the run has created, and waits until it is gone.
func (s *soak) deleteAll(ctx context.Context) error {
	for _, i := range slices.Clone(s.model.instances) {
		if _, err := s.removeInstance(ctx, i, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "delete all instances", s.mend); err != nil {
		return err
	}
	if err := s.removeLeft(ctx); err != nil {
		return err
	}
	s.model.settle()
	if err := s.await(ctx, "delete all children", s.isEmpty); err != nil {
		return err
	}
	all := []key{keyOf(widgetCRD())}
	for n := range namespaces {
		all = append(all, key{"Namespace", "", namespaceName(n)})
	}
	for _, k := range s.model.kinds {
		for _, o := range k.objects() {
			all = append(all, keyOf(o))
		}
	}
	for _, k := range all {
		if err := s.delete(ctx, k, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return s.await(ctx, "delete everything", func(ctx context.Context) error {
		for _, k := range all {
			o, err := s.get(ctx, k)
			if err != nil {
				return err
			}
			if o != nil {
				if k.kind == "CustomResourceDefinition" {
					s.touch(ctx, k)
				}
				return fmt.Errorf("%s still exists", k)
			}
		}
		return nil
	})
}

// isEmpty fails while there are instances or children.
func (s *soak) isEmpty(ctx context.Context) error {
	var problems []string
	for _, kind := range objectKinds {
		objects, err := s.list(ctx, kind)
		if err != nil {
			return err
		}
		for n := range objects {
			o := &objects[n]
			problems = append(problems, keyOf(o).String()+" "+conditionMessage(o))
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems[:min(len(problems), maxProblems)], "\n"))
	}
	return nil
}
