package functions

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	catalog "github.com/espalier-dev/espalier/internal/functions/packages"
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
			if got := testkit.Condition(o, pairs[i]) + " " + testkit.ReasonOf(o, pairs[i]); got != pairs[i+1] {
				return fmt.Errorf("%s is %q, not %q", pairs[i], got, pairs[i+1])
			}
		}
		return nil
	}
}

// TestAFunctionMovesThroughItsLife follows one Function: nobody serves it, its author
// does, a package manager does, and it goes.
func TestAFunctionMovesThroughItsLife(t *testing.T) {
	ours, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	w := begin(t, catalog.Options{CertificatesSecret: catalog.SecretName{Namespace: "default", Name: "function-client"}})

	w.says(t, "f", `there is no function "f"`)
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f}, spec: {package: example.org/f:v1}}")
	w.reports(t, "f", "False NoPackageRuntime", "False NoPackageRuntime")
	w.says(t, "f", "nobody here runs packages, and example.org/f:v1 is one. Serve it as a program (--function f=./program)")

	first := rpc.Serve(t, saying("developed"), function.Insecure())
	develop := func(at string) {
		w.Apply(t, `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f, annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: "`+at+`"}}, spec: {package: example.org/f:v1}}`)
	}
	develop(first)
	w.says(t, "f", "developed")
	w.reports(t, "f", "True ActivePackageRevision", "True HealthyPackageRevision")
	told := w.told("f")
	develop(rpc.Serve(t, saying("developed elsewhere"), function.Insecure()))
	w.says(t, "f", "developed elsewhere")
	if w.told("f") <= told {
		t.Error("nobody was told that it has moved")
	}

	// A package manager comes: it owns a revision, and says how both fare.
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f}, spec: {package: example.org/f:v1}}")
	w.reports(t, "f", "False NoPackageRuntime", "False NoPackageRuntime")
	f := w.Get(t, catalog.FunctionKind, "", "f")
	revision := func(name, state string, number int) {
		w.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: %s, labels: {pkg.crossplane.io/package: f}, ownerReferences: [{apiVersion: pkg.crossplane.io/v1, kind: Function, name: f, uid: %s, controller: true}]}, spec: {desiredState: %s, image: example.org/f:v1, revision: %d}}`, name, f.GetUID(), state, number))
	}
	revision("f-1", "Active", 1)
	w.says(t, "f", "its active FunctionRevision f-1 has no status.endpoint")
	w.reports(t, "f", " ", " ")
	secret := func(client pipeline.Identity) {
		encoded := base64.StdEncoding.EncodeToString
		w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: function-client, namespace: default}, data: {ca.crt: %s, tls.crt: %s, tls.key: %s}}",
			encoded(client.Authorities), encoded(client.Certificate), encoded(client.Key)))
	}
	secret(identity(t, ours))
	w.SetStatus(t, catalog.RevisionKind, "", "f-1", map[string]any{"endpoint": "dns:///" + rpc.Serve(t, saying("packaged"), serving(t, identity(t, ours))), "capabilities": []any{"composition"}})
	w.says(t, "f", "packaged")
	told = w.told("f")
	before := w.counter.Now()
	for range 50 { // an equal request is answered from memory, and any without a request to the API server
		if got := w.call(t, "f"); got != "packaged" || w.Functions.Stats().Hits == 0 {
			t.Fatalf("it says %s, %+v", got, w.Functions.Stats())
		}
	}
	if n := w.counter.Since(before); n.Total > 0 {
		t.Errorf("requests at rest: %s", n)
	}

	// Another revision takes over: what the former has answered is of no use.
	revision("f-2", "Active", 2)
	w.SetStatus(t, catalog.RevisionKind, "", "f-2", map[string]any{"endpoint": rpc.Serve(t, saying("packaged anew"), serving(t, identity(t, ours)))})
	revision("f-1", "Inactive", 1)
	w.says(t, "f", "packaged anew")
	if w.told("f") <= told {
		t.Error("nobody was told that another revision has taken over")
	}

	// What it says of its health is told with a call that fails.
	w.SetStatus(t, catalog.RevisionKind, "", "f-2", map[string]any{"endpoint": "127.0.0.1:1", "conditions": []any{
		map[string]any{"type": "RuntimeHealthy", "status": "False", "reason": "UnhealthyPackageRevision", "message": "no pod", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}})
	w.says(t, "f", "its package isn't well: RuntimeHealthy is False: UnhealthyPackageRevision: no pod")

	w.Delete(t, catalog.RevisionKind, "", "f-1")
	w.Delete(t, catalog.RevisionKind, "", "f-2")
	w.Delete(t, catalog.FunctionKind, "", "f")
	w.says(t, "f", `there is no function "f"`)
}

// TestWhatIsBuiltInGivesWay to a Function of its name that is served.
func TestWhatIsBuiltInGivesWay(t *testing.T) {
	const name = "function-auto-ready"
	w := begin(t, catalog.Options{})
	builtIn := func() bool { return w.Functions.Place(name).By == catalog.BuiltIn }
	w.until(t, "it is built in", builtIn)
	if got := w.call(t, name); got != "" {
		t.Errorf("it says %s", got)
	}
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+"}, spec: {package: example.org/ready:v1}}")
	w.reports(t, name, "True ActivePackageRevision", "True HealthyPackageRevision")
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+", annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: '"+rpc.Serve(t, saying("mine"), function.Insecure())+"'}}, spec: {package: example.org/ready:v1}}")
	w.says(t, name, "mine")
	w.Delete(t, catalog.FunctionKind, "", name)
	w.until(t, "it is built in again", builtIn)
}

// TestAPackageIsKnownByWhatItIs however its Function is called: people install one package
// under several names, and manifests name those.
func TestAPackageIsKnownByWhatItIs(t *testing.T) {
	const name = "ready-for-shops"
	w := begin(t, catalog.Options{})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+"}, spec: {package: 'xpkg.example.org/crossplane-contrib/function-auto-ready:v0.5.0'}}")
	w.reports(t, name, "True ActivePackageRevision", "True HealthyPackageRevision")
	if got := w.call(t, name); got != "" {
		t.Errorf("it says %s", got)
	}
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: "+name+"}, spec: {package: 'xpkg.example.org/somebody/function-auto-ready:v0.5.0'}}")
	w.reports(t, name, "False NoPackageRuntime", "False NoPackageRuntime")
	w.Delete(t, catalog.FunctionKind, "", name)
}

// TestWhatAPackageManagerSaysStays although we would say something else.
func TestWhatAPackageManagerSaysStays(t *testing.T) {
	w := begin(t, catalog.Options{})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: managed}, spec: {package: example.org/managed:v1}}")
	w.reports(t, "managed", "False NoPackageRuntime", "False NoPackageRuntime")
	unpacking := map[string]any{"type": "Installed", "status": "False", "reason": "UnpackingPackage", "message": "no such image", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	ours := map[string]any{"type": "Healthy", "status": "False", "reason": "NoPackageRuntime", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	w.SetStatus(t, catalog.FunctionKind, "", "managed", map[string]any{"conditions": []any{unpacking, ours}})
	w.reports(t, "managed", "False UnpackingPackage", " ")
	writes := w.counter.Now()
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: managed}, spec: {package: example.org/managed:v2}}")
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: witness}, spec: {package: example.org/witness:v1}}")
	w.reports(t, "witness", "False NoPackageRuntime", "False NoPackageRuntime")
	if n := w.counter.Since(writes); n.Total != 1 {
		t.Errorf("more was written than what the witness says: %s", n)
	}
	// A revision that a person has made is looked after as nobody else does.
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: witness-1, labels: {pkg.crossplane.io/package: witness}}, spec: {desiredState: Active, image: example.org/witness:v1, revision: 1}}")
	w.Await(t, catalog.RevisionKind, "", "witness-1", conditions("RevisionHealthy", "False NoEndpoint"))
	w.reports(t, "witness", "True ActivePackageRevision", "False UnhealthyPackageRevision")
	if got := w.call(t, "witness"); !strings.Contains(got, "witness-1 has no status.endpoint") || strings.Contains(got, "nobody here") {
		t.Errorf("it quotes itself: %s", got)
	}
	w.Delete(t, catalog.RevisionKind, "", "witness-1")
	w.Delete(t, catalog.FunctionKind, "", "witness")
	w.Delete(t, catalog.FunctionKind, "", "managed")
}
