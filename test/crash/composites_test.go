package crash

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

const (
	store = "apiVersion: sweep.example.com/v1alpha1\nkind: Store\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, writeConnectionSecretToRef: {name: x-connection}}\n"
	high  = "apiVersion: sweep.example.com/v1alpha1\nkind: High\nmetadata: {name: x, namespace: $NS}\nspec: {}\n"
)

var (
	four       = strings.Replace(steps.Five, "sweep-five", "sweep-four", 1)
	other      = strings.Replace(steps.Five, "sweep-five", "sweep-other", 1)
	storeAgain = strings.Replace(store, "value: one", "value: two", 1)
)

// awaitConnected waits until the claim x of the kind Store is ready, and its Secret has a value.
func awaitConnected(value string) steps.Step {
	return steps.All(steps.AwaitReady(steps.Kind("Store"), value), func(t *testing.T, w *testkit.Cluster, ns string) {
		w.Await(t, suite.Secret, ns, "x-connection", func(o *unstructured.Unstructured) error {
			if o == nil {
				return errors.New("does not exist")
			}
			if got, _, _ := unstructured.NestedString(o.Object, "data", "password"); got != base64.StdEncoding.EncodeToString([]byte(value)) {
				return fmt.Errorf("the password is %q", got)
			}
			return nil
		})
		w.Await(t, steps.Kind("Store"), ns, "x", testkit.IsReady)
	})
}

// supplyLate waits for the ConfigMap at the bottom of the nest, and sets its value.
func supplyLate(t *testing.T, w *testkit.Cluster, ns string) {
	t.Helper()
	w.Await(t, suite.ConfigMap, ns, "late", suite.IsPresent)
	steps.Apply(steps.Late)(t, w, ns)
}

// composites are the scenarios of the composition dialect.
var composites = []scenario{
	{name: "composite: create", act: steps.Apply(steps.Five), settled: steps.AwaitComposed("one", 5, 0)},
	{name: "composite: update", before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)), act: steps.Apply(steps.ChangedFive), settled: steps.AwaitComposed("two", 5, 0)},
	{name: "composite: leave one out", before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)), act: steps.Apply(four), settled: steps.AwaitComposed("one", 4, 0)},
	{name: "composite: another kind", before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)), act: steps.Apply(other), settled: steps.AwaitComposed("one", 4, 1)},
	{
		name: "composite: delete", before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)),
		act: steps.Delete(steps.Kind("Five"), metav1.DeletePropagationBackground), settled: steps.AwaitGone(steps.Kind("Five")),
	},
	{
		name: "composite: delete in the foreground", sparse: true, before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)),
		act: steps.Delete(steps.Kind("Five"), metav1.DeletePropagationForeground), settled: steps.AwaitGone(steps.Kind("Five")),
	},
	{
		name: "composite: delete and leave orphans", sparse: true, before: steps.All(steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0)),
		act: steps.Delete(steps.Kind("Five"), metav1.DeletePropagationOrphan), settled: steps.AwaitGone(steps.Kind("Five")),
	},
	{sparse: true, name: "claim: create", act: steps.Apply(store), settled: awaitConnected("one")},
	{sparse: true, name: "claim: change", before: steps.All(steps.Apply(store), awaitConnected("one")), act: steps.Apply(storeAgain), settled: awaitConnected("two")},
	{
		sparse: true, name: "claim: delete", before: steps.All(steps.Apply(store), awaitConnected("one")),
		act: steps.Delete(steps.Kind("Store"), metav1.DeletePropagationBackground), settled: steps.AwaitGone(steps.Kind("Store")),
	},
	{sparse: true, name: "claim: late value in a nest", act: steps.All(steps.Apply(high), supplyLate), settled: steps.AwaitReady(steps.Kind("High"), "here")},
	{
		sparse: true, name: "claim: delete a nest", before: steps.All(steps.Apply(high), supplyLate, steps.AwaitReady(steps.Kind("High"), "here")),
		act: steps.Delete(steps.Kind("High"), metav1.DeletePropagationBackground), settled: steps.AwaitGone(steps.Kind("High")),
	},
	{
		name: "claim: delete a nest, held by a finalizer", sparse: true,
		before: steps.All(steps.Apply(high), supplyLate, steps.AwaitReady(steps.Kind("High"), "here"), steps.Patch(suite.ConfigMap, "late", steps.AddFinalizer)),
		act: steps.All(steps.Delete(steps.Kind("High"), metav1.DeletePropagationBackground),
			steps.AwaitBlocker(steps.Kind("High"), "late", report.HeldByFinalizer), steps.Patch(suite.ConfigMap, "late", steps.RemoveFinalizer)),
		settled: steps.AwaitGone(steps.Kind("High")),
	},
}
