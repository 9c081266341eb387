package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

const fieldsDefinition = `
schema: {apiVersion: v1alpha1, kind: App, spec: {size: integer}, status: {image: "${web.spec.template.spec.containers[0].image}"}}
resources:
- id: login
  template: {apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: xyz}}
- id: web
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, labels: {size: "n${string(schema.spec.size)}-${schema.metadata.name}"}}
    spec:
      replicas: ${schema.spec.size * 2}
      paused: false
      template: {spec: {containers: [{name: web, image: nginx, env: [{name: PASSWORD, value: "${login.data.password}"}]}]}}
`

const fieldsObjects = `
apiVersion: kro.run/v1alpha1
kind: App
metadata:
  name: shop
  namespace: prod
  labels: {applyset.kubernetes.io/id: app}
  managedFields:
  - {manager: kubectl, operation: Update, time: "2026-08-01T11:00:00Z", fieldsV1: {"f:spec": {"f:size": {}}}}
spec: {size: 2}
status: {image: nginx}
---
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: prod, labels: {applyset.kubernetes.io/part-of: app, kro.run/node-id: login}}
data: {password: eHl6}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: prod
  labels: {applyset.kubernetes.io/part-of: app, kro.run/node-id: web, size: n2-shop}
  managedFields:
  - {manager: kro.run/applyset, operation: Apply, time: "2026-08-01T11:59:00Z", fieldsV1: {"f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}}}}
  - {manager: hpa, operation: Update, subresource: scale, time: "2026-08-01T11:58:00Z", fieldsV1: {"f:spec": {"f:replicas": {}}}}
spec:
  replicas: 7
  paused: false
  progressDeadlineSeconds: 600
  template: {spec: {containers: [{name: sidecar}, {name: web, image: nginx, env: [{name: PASSWORD, value: xyz}]}]}}
`

func TestFieldsAreExplained(t *testing.T) {
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(fieldsDefinition), &spec); err != nil {
		t.Fatal(err)
	}
	definition, problems := graph.Read(spec)
	compiled, more := graph.Compile(definition, graph.Kinds{}, graph.WithSecretOutputs(graph.WarnOfSecretOutputs))
	if problems.Add(more...); len(problems) > 0 {
		t.Fatal(problems)
	}
	w := state(t, strings.TrimSpace(fieldsObjects))
	objects := map[string]*unstructured.Unstructured{"App": w.Root}
	for _, o := range w.Children["app"] {
		objects[o.GetKind()] = o
	}
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		kind, field string
		want        string
	}{
		"an expression, and another manager": {"Deployment", "spec.replicas", `
spec.replicas of Deployment prod/web is 7
  owned by hpa (Update), which last changed its fields 2m ago
ResourceGraphDefinition app has a value for it, for App prod/shop, that another manager has replaced:
  spec.resources[1].template.spec.replicas
  ${schema.spec.size * 2}
    schema.spec.size is 2 (App prod/shop)
      owned by kubectl (Update), which last changed its fields 60m ago
`},
		"several expressions in a text": {"Deployment", "metadata.labels.size", `
metadata.labels.size of Deployment prod/web is "n2-shop"
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app sets it, for App prod/shop:
  spec.resources[1].template.metadata.labels.size
  ${string(schema.spec.size)}
  ${schema.metadata.name}
    schema.spec.size is 2 (App prod/shop)
      owned by kubectl (Update), which last changed its fields 60m ago
    schema.metadata.name is "shop" (App prod/shop)
      no owner: it is a default, or the API server has set it
`},
		"a literal": {"Deployment", "spec.paused", `
spec.paused of Deployment prod/web is false
  owned by kro.run/applyset (Apply), which last changed its fields 60s ago
ResourceGraphDefinition app sets it, for App prod/shop:
  spec.resources[1].template.spec.paused
`},
		"an item that its manager knows by a key": {"Deployment", "spec.template.spec.containers[1].image", `
spec.template.spec.containers[1].image of Deployment prod/web is "nginx"
  owned by kro.run/applyset (Apply), which last changed its fields 60s ago
ResourceGraphDefinition app sets it, for App prod/shop:
  spec.resources[1].template.spec.template.spec.containers[0].image
`},
		"an item that the definition does not have": {"Deployment", "spec.template.spec.containers[0].name", `
spec.template.spec.containers[0].name of Deployment prod/web is "sidecar"
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app does not set it.
`},
		"data of a Secret in an expression": {"Deployment", "spec.template.spec.containers[1].env[0].value", `
spec.template.spec.containers[1].env[0].value of Deployment prod/web is "xyz"
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app sets it, for App prod/shop:
  spec.resources[1].template.spec.template.spec.containers[0].env[0].value
  ${login.data.password}
    login.data.password is hidden (Secret prod/login)
      no owner: it is a default, or the API server has set it
`},
		"a default": {"Deployment", "spec.progressDeadlineSeconds", `
spec.progressDeadlineSeconds of Deployment prod/web is 600
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app does not set it.
`},
		"a field that is not set": {"Deployment", "spec.strategy.type", `
spec.strategy.type of Deployment prod/web is not set
ResourceGraphDefinition app does not set it.
`},
		"data of a Secret": {"Secret", "data.password", `
data.password of Secret prod/login is hidden
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app does not set it.
`},
		"the status of the instance": {"App", "status.image", `
status.image of App prod/shop is "nginx"
  no owner: it is a default, or the API server has set it
ResourceGraphDefinition app sets it, for App prod/shop:
  spec.schema.status.image
  ${web.spec.template.spec.containers[0].image}
    web.spec.template.spec.containers[0].image is not set (Deployment prod/web)
`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := observe.ExplainField(objects[tc.kind], object.Path(tc.field), w, compiled)
			e.Definition = "ResourceGraphDefinition app"
			if diff := cmp.Diff(strings.TrimLeft(tc.want, "\n"), e.Text(now, 0)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(string(e.JSON()), "eHl6") {
				t.Error("it has data of a Secret")
			}
		})
	}
	t.Run("the spec of an instance", func(t *testing.T) {
		e := observe.ExplainField(objects["App"], "spec.nope", observe.ClusterState{}, nil)
		if text := e.Text(now, 0); !strings.HasSuffix(text, "App prod/shop is an instance: users set its spec.\n") {
			t.Error(text)
		}
	})
	t.Run("the status of an instance without its definition", func(t *testing.T) {
		e := observe.ExplainField(objects["App"], "status.image", w, nil)
		if text := e.Text(now, 0); !strings.HasSuffix(text, "App prod/shop is an instance; its definition cannot be read, so what sets its status is unknown.\n") {
			t.Error(text)
		}
	})
	t.Run("an object of no instance", func(t *testing.T) {
		e := observe.ExplainField(objects["Secret"], "type", observe.ClusterState{}, nil)
		if text := e.Text(now, 0); !strings.HasSuffix(text, "Secret prod/login belongs to no instance.\n") {
			t.Error(text)
		}
	})
}
