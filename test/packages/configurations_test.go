package packages

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}

// definition is a definition of a kind.
func definition(kind string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: %s.packages.example.org}
spec:
  group: packages.example.org
  names: {kind: %s, plural: %s}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}
`, plural, kind, plural)
}

func hasConditions(pairs ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("it is not there")
		}
		for i := 0; i < len(pairs); i += 3 {
			if err := suite.HasCondition(pairs[i], pairs[i+1], "", pairs[i+2])(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestBrokenPackagesAffectThemselvesOnly: each says what is wrong with it, and a package beside them is healthy, and stays so.
func TestBrokenPackagesAffectThemselvesOnly(t *testing.T) {
	w := newWorld(t)
	for _, version := range []string{"v1.0.0", "v1.1.0", "v2.0.0"} {
		w.push(t, "org/function-dependency:"+version, answering(t, version), w.meta("Function", "function-dependency"))
	}
	w.push(t, "org/good:v1.0.0", nil, w.meta("Configuration", "good", "function=org/function-dependency >=1.0.0 <2"), definition("Good"))
	w.push(t, "org/missing:v1.0.0", nil, w.meta("Configuration", "missing", "provider=org/absent >=1"))
	w.push(t, "org/one:v1.0.0", nil, w.meta("Configuration", "one", "configuration=org/other >=1"))
	w.push(t, "org/other:v1.0.0", nil, w.meta("Configuration", "other", "configuration=org/one >=1"))
	w.push(t, "org/foreign:v1.0.0", nil, w.meta("Configuration", "foreign"), definition("Good"), definition("Foreign"))
	w.push(t, "org/conflict:v1.0.0", nil, w.meta("Configuration", "conflict", "function=org/function-dependency >=2"))
	w.push(t, "org/function-exits:v1.0.0", script(t, "exit 3"), w.meta("Function", "function-exits"))
	w.push(t, "org/function-kind:v1.0.0", script(t, "exit 3"), w.meta("Function", "function-kind"))
	w.store(t, "org/nothing:v1.0.0", script(t, "true"))
	c := w.start(t, w.config)

	w.install(t, "Configuration", "good", "org/good:v1.0.0")
	w.Await(t, configurationKind, "", "good", healthy)
	w.Await(t, functionKind, "", "org-function-dependency", healthy)
	if got := call(t.Context(), c, "org-function-dependency"); got != "v1.1.0" {
		t.Errorf("the dependency answers %q: the highest version in the range is v1.1.0", got)
	}
	good := w.Get(t, configurationKind, "", "good")
	current, _, _ := unstructured.NestedString(good.Object, "status", "currentRevision")

	broken := []struct {
		kind, name, image string
		want              suite.Check
	}{
		{"Configuration", "missing", "org/missing:v1.0.0", hasConditions("Healthy", "False", `missing dependencies: "`+w.host+`/org/absent" (>=1): cannot list its tags`)},
		{"Configuration", "one", "org/one:v1.0.0", hasConditions("Healthy", "False", "missing dependencies")},
		{"Configuration", "other", "org/other:v1.0.0", hasConditions("Healthy", "False", "dependency cycle")},
		{"Configuration", "foreign", "org/foreign:v1.0.0", hasConditions("Healthy", "False", "CompositeResourceDefinition goods.packages.example.org is already controlled by ConfigurationRevision "+current)},
		{"Configuration", "conflict", "org/conflict:v1.0.0", hasConditions("Healthy", "False", "Configuration conflict needs >=2, Configuration good needs >=1.0.0 <2")},
		{"Configuration", "twin", "org/good:v1.0.0", hasConditions("Healthy", "False", "Configuration good has the same source")},
		{"Configuration", "kind", "org/function-kind:v1.0.0", hasConditions("Healthy", "False", "is a package of the kind Function, not Configuration")},
		{"Configuration", "absent", "org/digest@sha256:" + strings.Repeat("0", 64), hasConditions("Installed", "False", "there is no such package")},
		{"Configuration", "private", "private/package:v1.0.0", hasConditions("Installed", "False", "the registry needs other credentials")},
		{"Configuration", "nothing", "org/nothing:v1.0.0", hasConditions("Installed", "False", "package")},
		{"Function", "exits", "org/function-exits:v1.0.0", hasConditions("Healthy", "False", "has ended: exit status 3")},
	}
	for _, b := range broken {
		w.install(t, b.kind, b.name, b.image)
	}
	w.Await(t, configurationKind, "", "one", hasConditions("Healthy", "False", "dependency cycle"))
	for _, b := range broken[2:] {
		kind := configurationKind
		if b.kind == "Function" {
			kind = functionKind
		}
		w.Await(t, kind, "", b.name, b.want)
	}
	w.Await(t, configurationKind, "", "missing", broken[0].want)
	if o := w.Get(t, definitionKind, "", "foreigns.packages.example.org"); o != nil {
		t.Error("a package that is refused has installed an object")
	}
	w.Await(t, configurationKind, "", "good", healthy)
	w.Await(t, functionKind, "", "org-function-dependency", healthy)

	// What was in conflict is installed once the other package is gone; its dependency is upgraded, and back again.
	w.Delete(t, configurationKind, "", "twin")
	w.Delete(t, configurationKind, "", "foreign")
	w.Delete(t, configurationKind, "", "good")
	w.Await(t, configurationKind, "", "conflict", healthy)
	testkit.Poll(t, "the dependency is upgraded", func() bool { return call(t.Context(), c, "org-function-dependency") == "v2.0.0" })
	w.install(t, "Configuration", "good", "org/good:v1.0.0")
	w.Await(t, configurationKind, "", "good", hasConditions("Healthy", "False", "no version of "+w.host+"/org/function-dependency satisfies all"))
	w.Delete(t, configurationKind, "", "conflict")
	w.Await(t, configurationKind, "", "good", healthy)
	testkit.Poll(t, "the dependency is downgraded", func() bool { return call(t.Context(), c, "org-function-dependency") == "v1.1.0" })
}
