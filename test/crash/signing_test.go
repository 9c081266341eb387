package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

const (
	signature     = "espalier.dev/signature"
	inventoryHash = "internal.kro.run/applyset-inventory-hash"
	signingKey    = "espalier-signing-key"
	keyIsRecorded = "espalier.dev/signing-key"
	keyNamespace  = "kube-system"
	bindingsCRD   = "bindings.espalier.dev"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// forgetKey deletes the signing key, as if there never was one.
func forgetKey(t *testing.T, w *testkit.Cluster) {
	t.Helper()
	w.Patch(t, crdKind, "", bindingsCRD, fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, keyIsRecorded))
	w.Delete(t, suite.Secret, keyNamespace, signingKey)
}

// TestAnUpgradeSignsWhatIsThere has objects as an earlier release wrote them, some of which no owner
// reference leads to: one in another namespace, and one that a policy preserves.
func TestAnUpgradeSignsWhatIsThere(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns, elsewhere := testkit.Group(t), testkit.Namespace(t, config), testkit.Namespace(t, config)
	stop := steps.Run(t, config)
	expand := strings.NewReplacer("$GROUP", group, "$ID", group, "$NS", ns, "$FAR", elsewhere)
	w.Apply(t, expand.Replace(suite.Graph("Spread", "spec: {text: string | default=a}", `
    - id: near
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-near"}, data: {text: "${schema.spec.text}"}}
    - id: retained
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-retained"}, data: {text: "${schema.spec.text}"}}
    - id: far
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-far", namespace: $FAR}, data: {text: "${schema.spec.text}"}}
`)))
	spread := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Spread"}
	for _, name := range []string{"x", "suspended", "dying"} {
		w.Apply(t, expand.Replace("apiVersion: $GROUP/v1alpha1\nkind: Spread\nmetadata: {namespace: $NS, name: "+name+"}\n"))
		w.AwaitReady(t, spread, ns, name)
	}
	stop()
	type place struct{ namespace, name string }
	var children []place
	uids := map[place]string{}
	for _, name := range []string{"x", "suspended", "dying"} {
		for _, c := range []place{{ns, name + "-near"}, {ns, name + "-retained"}, {elsewhere, name + "-far"}} {
			children, uids[c] = append(children, c), string(w.Get(t, suite.ConfigMap, c.namespace, c.name).GetUID())
			w.Patch(t, suite.ConfigMap, c.namespace, c.name, fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, signature))
		}
		o := w.Get(t, spread, ns, name)
		digest := object.Digest([]string{
			o.GetLabels()["applyset.kubernetes.io/id"], o.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"], elsewhere,
		})
		w.Patch(t, spread, ns, name, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, inventoryHash, digest))
	}
	w.Patch(t, spread, ns, "suspended", `{"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}}`)
	w.Delete(t, spread, ns, "dying")
	forgetKey(t, w)
	testkit.Poll(t, "the new key is younger by a second", func() bool {
		last := w.Get(t, suite.ConfigMap, elsewhere, "dying-far").GetCreationTimestamp()
		return time.Since(last.Time) > 2*time.Second
	})

	stop = steps.Run(t, config)
	defer func() { stop() }()
	isSigned := func(o *unstructured.Unstructured) error {
		if o.GetAnnotations()[signature] == "" {
			return errors.New("it isn't signed")
		}
		return nil
	}
	w.AwaitGone(t, spread, ns, "dying")
	w.AwaitGone(t, suite.ConfigMap, elsewhere, "dying-far")
	w.AwaitGone(t, suite.ConfigMap, ns, "dying-near")
	for _, c := range children[:3] {
		if got := string(w.Await(t, suite.ConfigMap, c.namespace, c.name, isSigned).GetUID()); got != uids[c] {
			t.Errorf("%s was recreated", c.name)
		}
	}
	w.AwaitReady(t, spread, ns, "x")

	t.Log("what was suspended during the upgrade is signed later, after a restart too")
	stop()
	stop = steps.Run(t, config)
	w.Patch(t, spread, ns, "suspended", `{"metadata": {"annotations": {"kro.run/reconcile": null}}, "spec": {"text": "b"}}`)
	for _, c := range children[3:6] {
		if got := string(w.Await(t, suite.ConfigMap, c.namespace, c.name, suite.All(isSigned, suite.HasField("b", "data", "text"))).GetUID()); got != uids[c] {
			t.Errorf("%s was recreated", c.name)
		}
	}

	t.Log("an instance of the same name finds what the former one has left")
	w.Delete(t, spread, ns, "x")
	w.AwaitGone(t, spread, ns, "x")
	w.AwaitGone(t, suite.ConfigMap, elsewhere, "x-far")
	w.Apply(t, expand.Replace("apiVersion: $GROUP/v1alpha1\nkind: Spread\nmetadata: {namespace: $NS, name: x}\n"))
	w.AwaitReady(t, spread, ns, "x")
	if got := string(w.Get(t, suite.ConfigMap, ns, "x-retained").GetUID()); got != uids[place{ns, "x-retained"}] {
		t.Error("what was retained was recreated")
	}
}

// TestALostSigningKeyIsNotReplaced deletes the key, and writes one that is none.
func TestALostSigningKeyIsNotReplaced(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	awaitKey(t, w, config)
	key := w.Get(t, suite.Secret, keyNamespace, signingKey)
	restore := func() {
		o := &unstructured.Unstructured{Object: map[string]any{"data": key.Object["data"]}}
		o.SetGroupVersionKind(suite.Secret)
		o.SetNamespace(keyNamespace)
		o.SetName(signingKey)
		if _, err := w.TryApply(t, o); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	refuses := func(want ...string) {
		t.Helper()
		c, err := server.NewControllers(server.Options{Config: config, Settings: server.Settings{Workers: 1}, Log: logr.Discard(), Events: suite.DiscardEvents{}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = c.Run(ctx)
		for _, want := range want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	}
	w.Delete(t, suite.Secret, keyNamespace, signingKey)
	refuses("Secret kube-system/espalier-signing-key, is missing. Restore the Secret", "kubectl annotate crd bindings.espalier.dev espalier.dev/signing-key-")
	if w.Get(t, suite.Secret, keyNamespace, signingKey) != nil {
		t.Error("there is a new key")
	}
	restore()
	w.Patch(t, suite.Secret, keyNamespace, signingKey, `{"data": {"current": "bm9uZQ=="}}`)
	refuses("is invalid: its entry \"current\" names none of its keys")
}

// awaitKey runs controllers until there is a key.
func awaitKey(t *testing.T, w *testkit.Cluster, config *rest.Config) {
	t.Helper()
	stop := steps.Run(t, config)
	defer stop()
	w.Await(t, suite.Secret, keyNamespace, signingKey, suite.IsPresent)
	w.Await(t, crdKind, "", bindingsCRD, func(o *unstructured.Unstructured) error {
		if o.GetAnnotations()[keyIsRecorded] == "" {
			return errors.New("the key isn't recorded")
		}
		return nil
	})
}
