package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// call runs a command against the server, and returns its exit code and output.
func (r *release) call(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := cli.Main(t.Context(), append(args, "--kubeconfig", testkit.Kubeconfig(t, r.Config)), &out, &out)
	return code, out.String()
}

// TestUninstallLeavesNobodyHanging uninstalls with a definition, an instance and a usage that live on.
// They can be deleted without the controllers, and what they consist of stays. A later installation
// in another namespace works.
func TestUninstallLeavesNobodyHanging(t *testing.T) {
	r := newRelease(t)
	_, stop := r.start(t, "espalier")
	r.Apply(t, blog)
	r.permit(t, r.Name("blog"))
	r.AwaitReady(t, suite.RGD, "", r.Name("blog"))
	r.Apply(t, fmt.Sprintf(instance, "one"))
	r.Await(t, r.Kind("Blog"), r.NS, "x", says("one"))
	usage := schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}
	r.Apply(t, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: kept, namespace: $NS}
spec: {of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: x-blog}}, reason: it is needed}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-protected, labels: {rbac.espalier.dev/aggregate-to-controllers: "true"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, patch, watch]}]
`)
	suite.AwaitAggregated(t, r.Config)
	r.AwaitReady(t, usage, r.NS, "kept")
	hooks := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	r.Await(t, hooks, "", "usages.espalier.dev", suite.IsPresent)

	code, out := r.call(t, "uninstall", "--namespace", r.NS)
	for _, want := range []string{"These objects stay:", "Blog." + r.Group, "ResourceGraphDefinition.kro.run", "--release-finalizers", "Nothing was changed; --yes uninstalls."} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Fatalf("exit code %d: %s", code, out)
	}
	r.Await(t, hooks, "", "usages.espalier.dev", suite.IsPresent)

	stop() // as the end of the pods
	code, out = r.call(t, "uninstall", "--namespace", r.NS, "--yes", "--release-finalizers")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	t.Log(out)
	for _, o := range r.objects {
		if kind := o.GetKind(); strings.HasPrefix(kind, "ValidatingAdmissionPolicy") {
			r.Await(t, o.GroupVersionKind(), "", o.GetName(), suite.IsPresent)
			continue
		}
		r.AwaitGone(t, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	}
	r.AwaitGone(t, hooks, "", "usages.espalier.dev")

	t.Log("each can be deleted, in any order, and the child stays")
	r.Delete(t, suite.RGD, "", r.Name("blog"))
	r.AwaitGone(t, suite.RGD, "", r.Name("blog"))
	r.Delete(t, r.Kind("Blog"), r.NS, "x")
	r.AwaitGone(t, r.Kind("Blog"), r.NS, "x")
	r.Delete(t, usage, r.NS, "kept")
	r.AwaitGone(t, usage, r.NS, "kept")
	if r.Get(t, suite.ConfigMap, r.NS, "x-blog") == nil {
		t.Error("the child is deleted")
	}
	r.Delete(t, suite.ConfigMap, r.NS, "x-blog")
	r.AwaitGone(t, suite.ConfigMap, r.NS, "x-blog")

	t.Log("a later installation in another namespace")
	former := r.NS
	r.NS = testkit.Namespace(t, r.Config)
	r.moveSigningKey(t, former)
	r.install(t)
	_, stop = r.start(t, "espalier")
	stop()

	code, out = r.call(t, "uninstall", "--namespace", r.NS, "--yes")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// moveSigningKey copies the key to the namespace of the installation, as docs/install.md says.
func (r *release) moveSigningKey(t *testing.T, from string) {
	t.Helper()
	key := r.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, from, v1alpha1.SigningKeySecret)
	data, err := json.Marshal(key.Object["data"])
	if err != nil {
		t.Fatal(err)
	}
	r.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: "+v1alpha1.SigningKeySecret+", namespace: "+r.NS+"}\ndata: "+string(data))
	crds := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	r.Patch(t, crds, "", "bindings.espalier.dev", `{"metadata":{"annotations":{"`+v1alpha1.SigningKeyAnnotation+`":"`+r.NS+`"}}}`)
}
