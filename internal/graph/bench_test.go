package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// BenchmarkCompile compiles a definition of 200 nodes. The budget is 300 ms of processor time.
func BenchmarkCompile(b *testing.B) {
	d, kinds := large(b)
	b.ReportAllocs()
	for b.Loop() {
		compiled(b, d, kinds)
	}
}

// BenchmarkCompose composes an instance of it. The budget is 5 ms of processor time.
func BenchmarkCompose(b *testing.B) {
	d, kinds := large(b)
	g := compiled(b, d, kinds)
	facts := settled(b, g)
	b.ReportAllocs()
	for b.Loop() {
		g.Compose(facts)
	}
}

func compiled(t testing.TB, d *v1alpha1.ResourceGraphDefinition, kinds graph.Kinds) *graph.Graph {
	t.Helper()
	g, problems := graph.Compile(&d.Spec, kinds)
	if problems != nil {
		t.Fatal(problems.Err())
	}
	return g
}

// large is a definition of 200 nodes, of all sorts, with a thousand expressions, and
// kinds of which one has as many fields as a Deployment.
func large(t testing.TB) (*v1alpha1.ResourceGraphDefinition, graph.Kinds) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`
spec:
  schema:
    kind: Large
    apiVersion: v1alpha1
    spec: {name: string | default=x, region: string | default=r, replicas: integer | default=2, enabled: boolean | default=true, zones: "[]string"}
    status:
`)
	const part = `
    - id: naming%[1]d
      value: {prefix: "${schema.spec.name}-%[1]d", labels: {app.kubernetes.io/name: "${schema.spec.name}", part: "%[1]d"}, count: "${size(schema.spec.zones)}"}
    - id: network%[1]d
      template:
        apiVersion: cloud.example.com/v1
        kind: Network
        metadata: {name: "${naming%[1]d.prefix}-network", labels: "${naming%[1]d.labels}"}
        spec: {region: "${schema.spec.region}", cidrBlock: "10.${string(%[1]d)}.0.0/16"}
      readyWhen: ["${network%[1]d.status.state == 'up'}"]
    - id: subnet%[1]d
      template:
        apiVersion: cloud.example.com/v1
        kind: Subnet
        metadata: {name: "${naming%[1]d.prefix}-subnet", labels: {of: "${network%[1]d.metadata.name}"}}
        spec: {networkID: "${network%[1]d.status.networkID}", size: "${naming%[1]d.count + 24}", zones: "${schema.spec.zones}"}
    - id: settings%[1]d
      includeWhen: ["${schema.spec.enabled}"]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${naming%[1]d.prefix}-settings", labels: {app: "${schema.spec.name}"}}
        data: {network: "${network%[1]d.status.networkID}", subnet: "${subnet%[1]d.status.subnetID}", region: "${schema.spec.region}", text: "a ${schema.spec.name} in ${schema.spec.region} of ${naming%[1]d.prefix}"}
    - id: app%[1]d
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "${naming%[1]d.prefix}-app", labels: {app: "${schema.spec.name}", version: "v%[1]d"}}
        spec:
          replicas: ${schema.spec.replicas}
          image: "${schema.spec.name}:latest"
          env: {REGION: "${schema.spec.region}", NAME: "${schema.spec.name}"}
          template:
            part7: {field3: "${settings%[1]d.metadata.name}", field4: "${subnet%[1]d.status.subnetID}"}
    - id: service%[1]d
      template:
        apiVersion: v1
        kind: Service
        metadata: {name: "${app%[1]d.metadata.name}", labels: "${naming%[1]d.labels.merge({'extra': 'x'})}"}
        spec: {clusterIP: "${schema.spec.name}", selector: {app: "${schema.spec.name}"}}
    - id: cells%[1]d
      forEach: [{zone: "${schema.spec.zones}"}]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${naming%[1]d.prefix}-${zone}"}
        data: {zone: "${zone}", index: "${string(schema.spec.zones.indexOf(zone))}"}
    - id: last%[1]d
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${naming%[1]d.prefix}-last"}
        data: {cells: "${cells%[1]d.map(c, c.metadata.name).join(',')}", service: "${service%[1]d.metadata.name}", up: "${subnet%[1]d.status.?subnetID.orValue('none')}"}
`
	for i := range 25 {
		fmt.Fprintf(&b, "      part%[1]d: {network: \"${network%[1]d.status.networkID}\", app: \"${app%[1]d.metadata.name}\", cells: \"${size(cells%[1]d)}\"}\n", i)
	}
	b.WriteString("  resources:")
	for i := range 25 {
		fmt.Fprintf(&b, part, i)
	}
	text := strings.ReplaceAll(b.String(), "enabled: boolean", "enabled: boolean")
	d := definition(t, strings.ReplaceAll(text, "schema.spec.on}", "schema.spec.enabled}"))
	kinds := commonKinds(t, "")
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	kind := kinds[deployment]
	pod := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{}}}
	for i := range 40 {
		part := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{}}}
		for j := range 25 {
			part.Properties[fmt.Sprint("field", j)] = *spec.StringProperty()
		}
		pod.Properties[fmt.Sprint("part", i)] = part
	}
	kind.Schema.Properties["spec"].Properties["template"] = pod
	kinds[deployment] = kind
	return d, kinds
}

// settled is an instance with all its objects.
func settled(t testing.TB, g *graph.Graph) plan.Facts {
	t.Helper()
	facts := someInstance(g)
	facts.Instance.Object["spec"] = map[string]any{"name": "n", "region": "r", "replicas": int64(2), "enabled": true, "zones": []any{"a", "b", "c"}}
	owner := inventory.OwnerOf(facts.Instance, object.Definition{Name: "large"}, "v1")
	for range g.Nodes {
		p := plan.Compute(g.Compose(facts), facts, plan.History{}, owner, v1alpha1.ChildManager)
		if facts.Owned == nil {
			facts.Owned = map[string][]*unstructured.Unstructured{}
		}
		fresh := false
		for _, step := range p.Steps {
			if step.Action != plan.Create {
				continue
			}
			fresh = true
			o := step.Object
			o.Object["status"] = map[string]any{"state": "up", "networkID": "n-1", "subnetID": "s-1"}
			node := inventory.Node(o)
			facts.Owned[node] = append(facts.Owned[node], o)
		}
		if !fresh {
			break
		}
	}
	for _, n := range g.Compose(facts).Nodes {
		if len(n.Waits) > 0 || n.SkipMessage != "" {
			t.Fatalf("%s: %v %s", n.ID, n.Waits, n.SkipMessage)
		}
	}
	return facts
}

// BenchmarkWide composes an instance with a thousand children in one collection, all of which are as they were
// applied, and decides on it.
func BenchmarkWide(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := compiled(b, definition(b, wide), commonKinds(b, ""))
			facts := plan.Facts{Instance: someInstance(g).Instance, Now: began, Owned: map[string][]*unstructured.Unstructured{}}
			facts.Instance.Object["spec"] = map[string]any{"name": "n", "size": int64(n)}
			owner := inventory.OwnerOf(facts.Instance, object.Definition{Name: "wide"}, "v1").Recognizing(signing.Keys(), facts.Instance, time.Time{})
			for _, step := range plan.Compute(g.Compose(facts), facts, plan.History{}, owner, v1alpha1.ChildManager).Steps {
				o := step.Object
				o.SetUID(types.UID(o.GetName()))
				o.SetManagedFields([]metav1.ManagedFieldsEntry{{
					Manager: v1alpha1.ChildManager, Operation: metav1.ManagedFieldsOperationApply,
					FieldsV1: &metav1.FieldsV1{Raw: []byte(fieldsOf(o.Object))},
				}})
				facts.Owned["parts"] = append(facts.Owned["parts"], o)
			}
			b.ReportAllocs()
			for b.Loop() {
				if p := plan.Compute(g.Compose(facts), facts, plan.History{}, owner, v1alpha1.ChildManager); !p.Settled || len(p.Steps) != n {
					b.Fatal(p.Problem)
				}
			}
		})
	}
}

const wide = `
spec:
  schema:
    kind: Wide
    apiVersion: v1alpha1
    spec: {name: string, size: integer}
  resources:
    - id: parts
      forEach: [{i: "${lists.range(schema.spec.size)}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}-${string(i)}"}, data: {text: "${schema.spec.name}"}}
`

// fieldsOf are the managed fields of a document without lists.
func fieldsOf(document map[string]any) string {
	var fields []string
	for name, value := range document {
		below := "{}"
		if m, ok := value.(map[string]any); ok {
			below = fieldsOf(m)
		}
		fields = append(fields, fmt.Sprintf("%q:%s", "f:"+name, below))
	}
	return "{" + strings.Join(fields, ",") + "}"
}
