package functions

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/certificate"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
)

// conditions checks conditions and their reasons: "True Reason".
func conditions(pairs ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("it isn't there")
		}
		for i := 0; i < len(pairs); i += 2 {
			if got := testkit.ConditionStatus(o, pairs[i]) + " " + testkit.ConditionReason(o, pairs[i]); got != pairs[i+1] {
				return fmt.Errorf("%s is %q, not %q", pairs[i], got, pairs[i+1])
			}
		}
		return nil
	}
}

// TestAFunctionMovesThroughItsLife follows a Function: it is served by no program, then by a
// program of its author, then by a package manager, and is deleted.
func TestAFunctionMovesThroughItsLife(t *testing.T) {
	ours, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	w := newTestCatalog(t, catalog.Options{AllowDevelopment: true, CertificatesSecret: catalog.SecretName{Namespace: "default", Name: "function-client"}})

	w.expectAnswer(t, "f", `there is no function "f"`)
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f}, spec: {package: example.org/f:v1}}")
	w.awaitConditions(t, "f", "False NoPackageRuntime", "False NoPackageRuntime")
	w.expectAnswer(t, "f", "no package manager runs its package example.org/f:v1. Serve it as a program (--function f=./program)")

	first := rpc.Serve(t, answering("developed"), function.Insecure())
	develop := func(at string) {
		w.Apply(t, `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f, annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: "`+at+`"}}, spec: {package: example.org/f:v1}}`)
	}
	develop(first)
	w.expectAnswer(t, "f", "developed")
	w.awaitConditions(t, "f", "True ActivePackageRevision", "True HealthyPackageRevision")
	told := w.changes("f")
	develop(rpc.Serve(t, answering("developed elsewhere"), function.Insecure()))
	w.expectAnswer(t, "f", "developed elsewhere")
	if w.changes("f") <= told {
		t.Error("nobody was told that it has moved")
	}

	// A package manager creates a revision, and reports the health of both.
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f}, spec: {package: example.org/f:v1}}")
	w.awaitConditions(t, "f", "False NoPackageRuntime", "False NoPackageRuntime")
	f := w.Get(t, catalog.FunctionKind, "", "f")
	revision := func(name, state string, number int) {
		w.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: %s, labels: {pkg.crossplane.io/package: f}, ownerReferences: [{apiVersion: pkg.crossplane.io/v1, kind: Function, name: f, uid: %s, controller: true}]}, spec: {desiredState: %s, image: example.org/f:v1, revision: %d}}`, name, f.GetUID(), state, number))
	}
	revision("f-1", "Active", 1)
	w.expectAnswer(t, "f", "its active FunctionRevision f-1 has no status.endpoint")
	w.awaitConditions(t, "f", " ", " ")
	secret := func(client pipeline.Identity) {
		encoded := base64.StdEncoding.EncodeToString
		w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: function-client, namespace: default}, data: {ca.crt: %s, tls.crt: %s, tls.key: %s}}",
			encoded(client.CA), encoded(client.Certificate), encoded(client.Key)))
	}
	w.SetStatus(t, catalog.RevisionKind, "", "f-1", map[string]any{"endpoint": "dns:///" + rpc.Serve(t, answering("packaged"), serving(t, identity(t, ours))), "capabilities": []any{"composition"}})
	w.expectAnswer(t, "f", "there is no Secret default/function-client")
	told = w.changes("f")
	secret(identity(t, ours))
	w.expectAnswer(t, "f", "packaged")
	if w.changes("f") <= told {
		t.Error("nobody was told that there are certificates")
	}
	told = w.changes("f")
	before := w.counter.Snapshot()
	for range 50 { // an equal request is answered from memory, and any without a request to the API server
		if got := w.call(t, "f"); got != "packaged" || w.Functions.CacheStats().Hits == 0 {
			t.Fatalf("got %s, %+v", got, w.Functions.CacheStats())
		}
	}
	if n := w.counter.Since(before); n.Total > 0 {
		t.Errorf("requests at rest: %s", n)
	}

	// Another revision takes over: what the former has answered is of no use.
	revision("f-2", "Active", 2)
	w.SetStatus(t, catalog.RevisionKind, "", "f-2", map[string]any{"endpoint": rpc.Serve(t, answering("packaged anew"), serving(t, identity(t, ours)))})
	revision("f-1", "Inactive", 1)
	w.expectAnswer(t, "f", "packaged anew")
	if w.changes("f") <= told {
		t.Error("nobody was told that another revision has taken over")
	}

	// The reported health is part of the error of a call that fails.
	w.SetStatus(t, catalog.RevisionKind, "", "f-2", map[string]any{"endpoint": "127.0.0.1:1", "conditions": []any{
		map[string]any{"type": "RuntimeHealthy", "status": "False", "reason": "UnhealthyPackageRevision", "message": "no pod", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}})
	w.expectAnswer(t, "f", "its package is unhealthy: RuntimeHealthy is False: UnhealthyPackageRevision: no pod")

	w.Delete(t, catalog.RevisionKind, "", "f-1")
	w.Delete(t, catalog.RevisionKind, "", "f-2")
	w.Delete(t, catalog.FunctionKind, "", "f")
	w.expectAnswer(t, "f", `there is no function "f"`)

	w.Delete(t, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "default", "function-client")
}

// TestBuiltInFunctionsYieldToPackages serves a package of a built-in function's name; one that is
// only developed replaces neither.
func TestBuiltInFunctionsYieldToPackages(t *testing.T) {
	const name = "function-auto-ready"
	const annotations = `annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: "127.0.0.1:1"}`
	w := newTestCatalog(t, catalog.Options{AllowDevelopment: true, PreferBuiltIn: catalog.PreferBuiltInNever})
	backend := func(want catalog.Backend) func() bool {
		return func() bool { return w.Functions.Route(name).Backend == want }
	}
	w.await(t, "it is built in", backend(catalog.BackendBuiltIn))
	if got := w.call(t, name); got != "" {
		t.Errorf("got %s", got)
	}
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+", "+annotations+"}, spec: {package: example.org/ready:v1}}")
	w.awaitConditions(t, name, "True ActivePackageRevision", "True HealthyPackageRevision")
	w.await(t, "it is built in still", backend(catalog.BackendBuiltIn))
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: ready-1, labels: {pkg.crossplane.io/package: "+name+"}}, spec: {desiredState: Active, image: example.org/ready:v1, revision: 1}}")
	w.SetStatus(t, catalog.RevisionKind, "", "ready-1", map[string]any{"endpoint": "127.0.0.1:1"})
	w.expectAnswer(t, name, "calls to 127.0.0.1:1 need a client certificate")
	w.Delete(t, catalog.RevisionKind, "", "ready-1")
	w.await(t, "it is built in again", backend(catalog.BackendBuiltIn))
	w.Delete(t, catalog.FunctionKind, "", name)
}

// TestAPackageIsIdentifiedByItsImage however its Function is called: people install one package
// under several names, and manifests name those.
func TestAPackageIsIdentifiedByItsImage(t *testing.T) {
	const name = "ready-for-shops"
	w := newTestCatalog(t, catalog.Options{})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+"}, spec: {package: 'xpkg.example.org/crossplane-contrib/function-auto-ready:v0.5.0'}}")
	w.awaitConditions(t, name, "True ActivePackageRevision", "True HealthyPackageRevision")
	if got := w.call(t, name); got != "" {
		t.Errorf("got %s", got)
	}
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+"}, spec: {package: 'xpkg.example.org/somebody/function-auto-ready:v0.5.0'}}")
	w.awaitConditions(t, name, "False NoPackageRuntime", "False NoPackageRuntime")
	w.Delete(t, catalog.FunctionKind, "", name)
}

// TestThePackageManagersStatusIsKept checks that its conditions are not overwritten.
func TestThePackageManagersStatusIsKept(t *testing.T) {
	w := newTestCatalog(t, catalog.Options{})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: managed}, spec: {package: example.org/managed:v1}}")
	w.awaitConditions(t, "managed", "False NoPackageRuntime", "False NoPackageRuntime")
	unpacking := map[string]any{"type": "Installed", "status": "False", "reason": "UnpackingPackage", "message": "no such image", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	ours := map[string]any{"type": "Healthy", "status": "False", "reason": "NoPackageRuntime", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	w.SetStatus(t, catalog.FunctionKind, "", "managed", map[string]any{"conditions": []any{unpacking, ours}})
	w.awaitConditions(t, "managed", "False UnpackingPackage", " ")
	writes := w.counter.Snapshot()
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: managed}, spec: {package: example.org/managed:v2}}")
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: witness}, spec: {package: example.org/witness:v1}}")
	w.awaitConditions(t, "witness", "False NoPackageRuntime", "False NoPackageRuntime")
	if n := w.counter.Since(writes); n.Total != 1 {
		t.Errorf("more was written than what the witness says: %s", n)
	}
	// A revision that a user has created is reconciled, since no package manager does.
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: witness-1, labels: {pkg.crossplane.io/package: witness}}, spec: {desiredState: Active, image: example.org/witness:v1, revision: 1}}")
	w.Await(t, catalog.RevisionKind, "", "witness-1", conditions("RevisionHealthy", "False NoEndpoint"))
	w.awaitConditions(t, "witness", "True ActivePackageRevision", "False UnhealthyPackageRevision")
	if got := w.call(t, "witness"); !strings.Contains(got, "witness-1 has no status.endpoint") || strings.Contains(got, "no package manager") {
		t.Errorf("it quotes itself: %s", got)
	}
	w.Delete(t, catalog.RevisionKind, "", "witness-1")
	w.Delete(t, catalog.FunctionKind, "", "witness")
	w.Delete(t, catalog.FunctionKind, "", "managed")
}
