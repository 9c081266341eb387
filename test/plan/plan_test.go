package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// lines are what a plan has of objects: the action, the kind and the name, and the fields that change.
func lines(s suite.Suite, p preview.Plan) []string {
	var out []string
	add := func(o preview.ObjectChange) {
		name := strings.NewReplacer(s.Group, "GROUP", s.Name(""), "ID-", s.NS, "NS").Replace(o.String())
		text := fmt.Sprintf("%s %s", o.Action, name)
		for _, f := range o.Fields {
			if strings.HasSuffix(f.Path, "compositionRevisionRef.name") {
				continue // its name has a digest
			}
			text += "; " + f.String()
		}
		out = append(out, text)
	}
	for _, o := range p.Objects {
		if !strings.HasSuffix(o.Kind, "Revision") && o.Kind != "CustomResourceDefinition" {
			add(o)
		}
	}
	for _, i := range p.Instances {
		add(i.ObjectChange)
		for _, o := range i.Objects {
			add(o)
		}
		for _, w := range i.Waits {
			out = append(out, "wait "+w.Node+": "+w.Message)
		}
	}
	for _, problem := range p.Problems {
		out = append(out, "problem "+problem.Reason)
	}
	return out
}

func want(t *testing.T, s suite.Suite, text string, lined ...string) preview.Plan {
	t.Helper()
	p := planOf(t, s, testkit.Parse(t, s.Expand(text)))
	if diff := cmp.Diff(lined, lines(s, p)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, p.Text(120))
	}
	return p
}

// awaitData waits until a ConfigMap has a value.
func awaitData(t *testing.T, s suite.Suite, name, key, value string) {
	t.Helper()
	testkit.Poll(t, name+" has "+value, func() bool {
		o := s.Get(t, configMap, s.NS, name)
		if o == nil {
			return false
		}
		got, _, _ := unstructured.NestedString(o.Object, "data", key)
		return got == value
	})
}

// applyText applies the objects of a text.
func applyText(t *testing.T, s suite.Suite, text string) {
	t.Helper()
	apply(t, s, testkit.Parse(t, s.Expand(text)))
}

// compositeFiles define a kind of composites with a Composition of built-in functions.
const compositeFiles = `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: boxes.$GROUP}
spec:
  scope: Namespaced
  group: $GROUP
  names: {kind: Box, plural: boxes}
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string, default: small}}}}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-boxes}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1, kind: Box}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: config
        base: {apiVersion: v1, kind: ConfigMap, data: {KEY: VALUE}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size}]
  - step: ready
    functionRef: {name: function-auto-ready}
---
apiVersion: $GROUP/v1
kind: Box
metadata: {namespace: $NS, name: one}
spec: {}
`

func TestAPlanOfComposites(t *testing.T) {
	s := suite.NewSerial(t)
	s.AllowComposing(t, s.Group)
	first := strings.NewReplacer("KEY", "a", "VALUE", "x").Replace(compositeFiles)
	p := planOf(t, s, testkit.Parse(t, s.Expand(first)))
	if len(p.Problems) > 0 || len(p.Instances) != 1 || len(p.Instances[0].Objects) != 1 || p.Instances[0].Objects[0].Node != "config" {
		t.Fatalf("%s", p.Text(120))
	}
	child := p.Instances[0].Objects[0]
	apply(t, s, testkit.Parse(t, s.Expand(first)))
	s.AwaitReady(t, schema.GroupVersionKind{Group: s.Group, Version: "v1", Kind: "Box"}, s.NS, "one")
	if s.Get(t, configMap, s.NS, child.Name) == nil {
		t.Fatalf("%s does not exist", child)
	}
	second := strings.NewReplacer("KEY", "b", "VALUE", "y2", "spec: {}", "spec: {size: large}").Replace(compositeFiles)
	want(t, s, second,
		`Change Composition ID-boxes; spec.pipeline[step=render].input.resources[name=config].base.data.a: "x" removed; spec.pipeline[step=render].input.resources[name=config].base.data.b: set to "y2"`,
		`Change Box NS/one; spec.size: "small" → "large"`,
		`Change ConfigMap NS/`+child.Name+`; data.a: "x" removed; data.b: set to "y2"; data.size: "small" → "large"`,
	)
	revisions := s.List(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}, "", "crossplane.io/composition-name="+s.Name("boxes"))
	if len(revisions) != 1 {
		t.Fatalf("%d revisions", len(revisions))
	}
	apply(t, s, testkit.Parse(t, s.Expand(second)))
	awaitData(t, s, child.Name, "b", "y2")
	third := strings.NewReplacer("KEY", "b", "VALUE", "z", "spec: {}", "spec: {size: large}").Replace(compositeFiles)
	p = planAgainst(t, s, revisions[0].GetName(), testkit.Parse(t, s.Expand(third)))
	if diff := cmp.Diff([]string{
		`Change Composition ID-boxes; spec.pipeline[step=render].input.resources[name=config].base.data.a: "x" removed; spec.pipeline[step=render].input.resources[name=config].base.data.b: set to "z"`,
		"Change Box NS/one",
		`Change ConfigMap NS/` + child.Name + `; data.a: "x" removed; data.b: set to "z"`,
	}, lines(s, p)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, p.Text(120))
	}
}

// TestAPlanAgainstARevision has an instance at the second revision of a definition, and plans a third one.
func TestAPlanAgainstARevision(t *testing.T) {
	s := suite.NewSerial(t)
	file := func(value string) string {
		return strings.ReplaceAll(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-notes}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Note, spec: {text: string | default=t}}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: "${schema.spec.text}", value: VALUE}}
`, "VALUE", value)
	}
	for _, value := range []string{"one", "two"} {
		apply(t, s, testkit.Parse(t, s.Expand(file(value))))
		apply(t, s, testkit.Parse(t, s.Expand("apiVersion: $GROUP/v1alpha1\nkind: Note\nmetadata: {namespace: $NS, name: first}\nspec: {}\n")))
		awaitData(t, s, "first", "value", value)
	}
	p := planAgainst(t, s, s.Name("notes-r00001"), testkit.Parse(t, s.Expand(file("three"))))
	if diff := cmp.Diff([]string{
		`Change ResourceGraphDefinition ID-notes; spec.resources[id=config].template.data.value: "one" → "three"`,
		"Keep Note NS/first",
		`Change ConfigMap NS/first; data.value: "one" → "three"`,
	}, lines(s, p)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, p.Text(120))
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "revision 1 of "+s.Name("notes")) {
		t.Errorf("notes: %q", p.Notes)
	}
	// Against the first revision, the first one changes nothing but the number of the newest revision.
	p = planAgainst(t, s, s.Name("notes-r00001"), testkit.Parse(t, s.Expand(file("one"))))
	if got := lines(s, p); len(got) > 0 {
		t.Errorf("%q\n%s", got, p.Text(120))
	}
	if _, err := tryPlan(t, s, "notes-r00009", nil); err == nil || !strings.Contains(err.Error(), "there is no GraphRevision and no CompositionRevision notes-r00009") {
		t.Errorf("error %v", err)
	}
	// Nothing was written.
	awaitData(t, s, "first", "value", "two")
}

// TestAPlanOfARollout has two instances, of which the first wave updates one. A plan of the change has that one, and says that there is
// another; a plan against the revision before has both, also while the rollout is in progress.
func TestAPlanOfARollout(t *testing.T) {
	s := suite.NewSerial(t)
	file := func(value string) string {
		return strings.ReplaceAll(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-notes}
spec:
  rollout: {waves: [{selector: {matchLabels: {tier: canary}}, pause: 1h}]}
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Note, spec: {text: string | default=t}}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {value: VALUE}}
`, "VALUE", value)
	}
	apply(t, s, testkit.Parse(t, s.Expand(file("one"))))
	for name, tier := range map[string]string{"first": "canary", "second": "other"} {
		apply(t, s, testkit.Parse(t, s.Expand("apiVersion: $GROUP/v1alpha1\nkind: Note\nmetadata: {namespace: $NS, name: "+name+", labels: {tier: "+tier+"}}\nspec: {}\n")))
		awaitData(t, s, name, "value", "one")
		s.AwaitReady(t, schema.GroupVersionKind{Group: s.Group, Version: "v1alpha1", Kind: "Note"}, s.NS, name)
	}
	second := testkit.Parse(t, s.Expand(file("two")))
	definition := `Change ResourceGraphDefinition ID-notes; spec.resources[id=config].template.data.value: "one" → "two"`
	firstWave := []string{definition, "Keep Note NS/first", `Change ConfigMap NS/first; data.value: "one" → "two"`}
	all := append(slices.Clone(firstWave), "Keep Note NS/second", `Change ConfigMap NS/second; data.value: "one" → "two"`)

	p := planOf(t, s, second)
	if diff := cmp.Diff(firstWave, lines(s, p)); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], s.Name("notes")+" updates its instances in waves: 1 of 2 ") {
		t.Errorf("the notes of the plan: %q", p.Notes)
	}
	p = planAgainst(t, s, s.Name("notes-r00001"), second)
	if diff := cmp.Diff(all, lines(s, p)); diff != "" || len(p.Notes) != 1 {
		t.Errorf("the plan against the revision (-want +got):\n%s\n%q", diff, p.Notes)
	}

	s.Apply(t, s.Expand(file("two")))
	awaitData(t, s, "first", "value", "two")
	p = planAgainst(t, s, s.Name("notes-r00001"), second)
	if diff := cmp.Diff(all, lines(s, p)); diff != "" || len(p.Notes) != 1 {
		t.Errorf("the plan against the revision during the rollout (-want +got):\n%s\n%q", diff, p.Notes)
	}
	// Nothing was written.
	awaitData(t, s, "second", "value", "one")
}

// TestAPlanOfANamespaceAndWhatIsInIt has a file that creates a namespace, with an instance in it: the API server has no namespace to
// dry-run the latter in.
func TestAPlanOfANamespaceAndWhatIsInIt(t *testing.T) {
	s := suite.NewSerial(t)
	applyText(t, s, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-notes}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Note, spec: {text: string | default=t}}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: "${schema.spec.text}"}}
  - id: web
    template: {apiVersion: v1, kind: Service, metadata: {name: "${schema.metadata.name}"}, spec: {ports: [{port: 80}], selector: {app: "${config.metadata.name}"}}}
`)
	const file = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ID-new}\n---\napiVersion: $GROUP/v1alpha1\nkind: Note\nmetadata: {namespace: $ID-new, name: first}\nspec: {}\n"
	want(t, s, file, "Create Namespace ID-new", "Create Note ID-new/first", "Create ConfigMap ID-new/first", "Create Service ID-new/first")
	missing := "apiVersion: $GROUP/v1alpha1\nkind: Note\nmetadata: {namespace: $ID-none, name: first}\nspec: {}\n"
	want(t, s, missing, "problem Refused")
}

// TestAPlanSaysWhatItCannotKnow has a node that waits for what no controller of the test does.
func TestAPlanSaysWhatItCannotKnow(t *testing.T) {
	s := suite.NewSerial(t)
	want(t, s, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-webs}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Web, spec: {image: string}}
  resources:
  - id: web
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "${schema.spec.image}"}]}}}
  - id: note
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {replicas: "${string(web.status.availableReplicas)}"}}
---
apiVersion: $GROUP/v1alpha1
kind: Web
metadata: {namespace: $NS, name: shop}
spec: {image: nginx}
---
apiVersion: $GROUP/v1alpha1
kind: Web
metadata: {namespace: $NS, name: wrong}
spec: {image: nginx, imagee: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: $NS, name: Not-A-Name}
---
apiVersion: $GROUP/v9
kind: Web
metadata: {namespace: $NS, name: none}
`,
		"Create ResourceGraphDefinition ID-webs",
		"Create Web NS/shop",
		"Create Deployment NS/shop",
		"wait note: waits for unresolved web.status.availableReplicas",
		"problem Refused", // a name that is none
		"problem NoKind",
		"problem Refused", // a field that the definition does not have
	)
}
