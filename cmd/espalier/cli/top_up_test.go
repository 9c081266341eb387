package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/observe/top"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// topObjects are a definition and its instance, and both in Crossplane's dialect.
const topObjects = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: counted}
spec:
  schema: {apiVersion: v1alpha1, kind: Counted, spec: {size: integer}}
  resources:
    - {id: map, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: counted}, data: {twice: "${string(schema.spec.size * 2)}"}}}
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: xcalls.example.org}
spec:
  group: example.org
  names: {kind: XCall, plural: xcalls}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      referenceable: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: xcalls}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XCall}
  mode: Pipeline
  pipeline:
    - {step: ready, functionRef: {name: function-auto-ready}}
---
apiVersion: kro.run/v1alpha1
kind: Counted
metadata: {name: one, namespace: default}
spec: {size: 3}
---
apiVersion: example.org/v1
kind: XCall
metadata: {name: one, namespace: default}
spec: {size: 3}
`

// await repeats a check until it succeeds.
func await(t *testing.T, what string, check func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(testkit.Timeout); !check(); {
		select {
		case <-again.C:
		case <-limit:
			t.Fatal(what)
		}
	}
}

// TestTopOfUp asks a program that serves a definition of each dialect with an instance.
func TestTopOfUp(t *testing.T) {
	up := startUp(t)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(config)
	plurals := map[string]string{"ResourceGraphDefinition": "resourcegraphdefinitions", "CompositeResourceDefinition": "compositeresourcedefinitions", "Composition": "compositions", "Counted": "counteds", "XCall": "xcalls"}
	for _, o := range testkit.Parse(t, topObjects) {
		resource := client.Resource(o.GroupVersionKind().GroupVersion().WithResource(plurals[o.GetKind()]))
		await(t, o.GetKind()+" was not created", func() bool {
			var err error
			if o.GetNamespace() == "" {
				_, err = resource.Create(t.Context(), o, metav1.CreateOptions{})
			} else {
				_, err = resource.Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	ask := func(args ...string) (table top.Table) {
		t.Helper()
		code, text, errs := call(t.Context(), append([]string{"top", "-o", "json"}, args...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if err := json.Unmarshal([]byte(text), &table); err != nil {
			t.Fatal(err)
		}
		return table
	}
	kind := func(table top.Table, name string) (found top.Kind) {
		for _, k := range table.Kinds {
			if k.Kind == name {
				found = k
			}
		}
		return found
	}
	measured := func() bool {
		table := ask()
		for _, name := range []string{"Counted", "XCall"} {
			if k := kind(table, name); k.Instances != 1 || k.Ready != 1 || k.Reconciles == 0 || k.Requests == 0 || k.Seconds <= 0 || k.Waiting+k.Active > 0 {
				return false
			}
		}
		return len(table.Functions) > 0
	}
	await(t, "nothing was measured", measured)
	table := ask()
	if f := table.Functions[0]; f.Kind != "XCall" || f.Function != "function-auto-ready" || f.Calls == 0 || f.Failed > 0 || f.Seconds <= 0 {
		t.Errorf("the slowest function is %+v", f)
	}
	code, text, errs := call(t.Context(), "top", "--sort", "name")
	for _, line := range []string{
		`(?m)^Since the program began, \d+s ago:$`,
		`(?m)^KIND +READY +RECONCILES +ERRORS +REQUESTS +TIME +P50 +P99 +QUEUE +OLDEST$`,
		`(?m)^Counted\.kro\.run +1/1 +\d+ +\d+ +[1-9]\d* +\S+s +\S+s +\S+s +0$`,
	} {
		if code != 0 || !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("exit code %d, and no line is like %s:\n%s%s", code, line, text, errs)
		}
	}

	// Between two readings the instance changes once.
	counted := client.Resource(schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "counteds"}).Namespace("default")
	before := kind(ask(), "Counted")
	go func() {
		o, err := counted.Get(t.Context(), "one", metav1.GetOptions{})
		if err == nil {
			o.Object["spec"] = map[string]any{"size": int64(4)}
			_, err = counted.Update(t.Context(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}()
	await(t, "the change was not counted", func() bool { return kind(ask(), "Counted").Requests > before.Requests })
	sampled := ask("counted", "--interval", "100ms")
	if k := kind(sampled, "Counted"); !sampled.Sampled || len(sampled.Kinds) != 1 || k.Instances != 1 || k.Reconciles >= kind(ask(), "Counted").Reconciles {
		t.Errorf("in an interval: %+v", sampled)
	}
	if code, errs := up.stop(); code != 0 {
		t.Errorf("ended with %d: %s", code, errs)
	}
}
