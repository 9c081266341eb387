package expr

import (
	"encoding/json"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// schemaOf reads a schema written as YAML.
func schemaOf(t testing.TB, text string) *spec.Schema {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &spec.Schema{}
	if err := json.Unmarshal(raw, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// document reads YAML as JSON is decoded for objects: with int64.
func document(t testing.TB, text string) any {
	t.Helper()
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return whole(out)
}

func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	}
	return v
}

const schemaSchema = `
type: object
properties:
  metadata:
    type: object
    properties:
      name: {type: string}
      namespace: {type: string}
      labels: {type: object, additionalProperties: {type: string}}
      creationTimestamp: {type: string, format: date-time}
  spec:
    type: object
    properties:
      name: {type: string}
      replicas: {type: integer}
      ratio: {type: number}
      enabled: {type: boolean}
      zone: {type: string}
      port: {x-kubernetes-int-or-string: true}
      every: {type: string, format: duration}
      tags: {type: array, items: {type: string}}
      env: {type: object, additionalProperties: {type: string}}
      index: {type: integer}
`

const vpcSchema = `
type: object
properties:
  spec:
    type: object
    properties:
      cidr: {type: string}
  status:
    type: object
    properties:
      id: {type: string}
      privateSubnet1ID: {type: string}
      privateSubnet2ID: {type: string}
      subnets:
        type: array
        items:
          type: object
          properties:
            id: {type: string}
            zone: {type: string}
            size: {type: integer}
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items: {type: object, properties: {type: {type: string}, status: {type: string}}}
      zones: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      routes: {type: object, additionalProperties: {type: string}}
      extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const secretSchema = `
type: object
properties:
  data: {type: object, additionalProperties: {type: string, format: byte}}
`

const deploymentSchema = `
type: object
properties:
  apiVersion: {type: string}
  kind: {type: string}
  metadata:
    type: object
    properties:
      name: {type: string}
      labels: {type: object, additionalProperties: {type: string}}
  spec:
    type: object
    properties:
      replicas: {type: integer}
      paused: {type: boolean}
      weight: {type: number}
      strategy: {type: string, enum: [Recreate, RollingUpdate]}
      maxSurge: {format: int-or-string, oneOf: [{type: string}, {type: integer}]}
      password: {type: string, format: byte}
      limits: {type: object, additionalProperties: {oneOf: [{type: string}, {type: number}]}}
      containers:
        type: array
        items:
          type: object
          properties:
            name: {type: string}
            image: {type: string}
            port: {type: integer}
            args: {type: array, items: {type: string}}
      anything: {x-kubernetes-preserve-unknown-fields: true}
`

func testEnv(t testing.TB) *Env {
	t.Helper()
	env, err := NewEnv([]Declaration{
		{Name: "schema", Schema: schemaOf(t, schemaSchema)},
		{Name: "vpc", Schema: schemaOf(t, vpcSchema)},
		{Name: "secret", Schema: schemaOf(t, secretSchema)},
		{Name: "vpcs", Schema: schemaOf(t, vpcSchema), List: true},
		{Name: "raw"},
	}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

const world = `
schema:
  metadata: {name: shop, namespace: prod, labels: {app.kubernetes.io/name: shop}, creationTimestamp: "2026-08-01T10:00:00Z"}
  spec: {name: shop, replicas: 3, ratio: 2, enabled: true, port: 80, every: 1h, tags: [a, b], env: {B: "2", A: "1"}, index: 1}
vpc:
  spec: {cidr: 10.0.0.0/16}
  status:
    id: vpc-1
    privateSubnet1ID: subnet-1
    subnets: [{id: subnet-1, zone: a, size: 4}, {id: subnet-2, zone: b, size: 0}]
    conditions: [{type: Ready, status: "False"}, {type: Synced, status: "True"}]
    zones: [a, b]
    routes: {default: gw}
    extra: {deep: {er: [1, 2.5, "x", null]}}
secret: {data: {password: aHVudGVyMg==}}
vpcs: [{status: {id: vpc-1}}, {status: {id: vpc-2, conditions: [{type: Ready, status: "True"}]}}]
raw: {a: {b: [1, {c: d}], none: null}}
`

func worldVars(t testing.TB) map[string]any {
	t.Helper()
	return document(t, world).(map[string]any)
}
