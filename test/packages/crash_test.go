package packages

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAnInstallationContinuesAfterACrash at each of its writes: the controllers stop after it, others begin, and all is installed.
func TestAnInstallationContinuesAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.permissions = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	w.activations = []string{"*"}
	first := w.start(t, w.config) // installs the kinds
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	install := func(n int) (writes int) {
		function, configuration, provider := fmt.Sprintf("function-crash%d", n), fmt.Sprintf("crash%d", n), fmt.Sprintf("provider-crash%d", n)
		group := configuration + ".providers.example.org"
		w.push(t, "org/"+function+":v1.0.0", answering(t, configuration), w.meta("Function", function))
		w.push(t, "org/"+configuration+":v1.0.0", nil, w.meta("Configuration", configuration, "function=org/"+function+" >=1", "provider=org/"+provider+" >=1"), definition(fmt.Sprintf("Crash%d", n)))
		w.push(t, "org/"+provider+":v1.0.0", serving(t, "things."+group), strings.Replace(w.meta("Provider", provider), "[]", "[safe-start]", 1),
			customResource(group, "Thing"), customResource(group, "ProviderConfig"), managedResource(group, "Gadget"), admission(group))
		crash := testkit.NewCrash(n)
		if n > 0 {
			crash.Log = func(text string) { t.Log(n, text) }
		}
		stop := crash.RunAndRestart(w.config, func(config *rest.Config) func() {
			c := w.begin(t, config)
			return func() { _ = c.Stop() } // an error after the crash is that of the connection
		})
		w.install(t, "Configuration", configuration, "org/"+configuration+":v1.0.0")
		w.Await(t, configurationKind, "", configuration, healthy)
		w.Await(t, functionKind, "", "org-"+function, healthy)
		w.Await(t, providerKind, "", "org-"+provider, healthy)
		for _, name := range []string{"things.", "gadgets."} {
			w.Await(t, managedKind, "", name+group, suite.HasCondition("Established", "True", ""))
		}
		w.Await(t, crdKind, "", "providerconfigs."+group, suite.HasCondition("Established", "True", ""))
		w.Apply(t, "{apiVersion: "+group+"/v1, kind: Thing, metadata: {name: thing}}")
		w.Await(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}, "", "thing", isServed)
		writes = crash.Writes()
		stop()
		w.Delete(t, policyKind, "", "default") // the next controllers create it again
		for _, kind := range []string{"Function", "Configuration", "Provider"} {
			revisions := map[string]int{}
			for _, o := range w.List(t, functionKind.GroupVersion().WithKind(kind+"Revision"), "", "") {
				revisions[o.GetLabels()["pkg.crossplane.io/package"]]++
			}
			of := map[string]string{"Function": "org-" + function, "Configuration": configuration, "Provider": "org-" + provider}[kind]
			if count := revisions[of]; count != 1 {
				t.Errorf("after write %d, %s %s has %d revisions", n, kind, of, count)
			}
		}
		return writes
	}
	writes := install(0)
	if writes < 10 {
		t.Fatalf("%d writes are too few", writes)
	}
	for n := 1; n <= writes; n += testkit.Size(7, 1) {
		install(n)
	}
}
