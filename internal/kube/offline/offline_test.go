package offline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// widgets is a CustomResourceDefinition, in a namespace although it is cluster-scoped.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org, namespace: prod}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              region: {type: string}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true}
              inner: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {a: {type: string}}}}}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}
`

var resources = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"Namespace":                {Version: "v1", Resource: "namespaces"},
	"ConfigMap":                {Version: "v1", Resource: "configmaps"},
	"Service":                  {Version: "v1", Resource: "services"},
	"Widget":                   {Group: "example.org", Version: "v1", Resource: "widgets"},
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	o := &unstructured.Unstructured{}
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// cluster is an empty cluster with the kind Widget.
type cluster struct{ dynamic.Interface }

func begin(t *testing.T) cluster {
	t.Helper()
	_, config := New()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{client}
	if _, err := c.of(parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: default}}")).Create(t.Context(), parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: default}}"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.of(parse(t, widgets)).Create(t.Context(), parse(t, widgets), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c cluster) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := c.Resource(resources[o.GetKind()])
	if slices.Contains([]string{"ClusterRole", "CustomResourceDefinition", "Namespace"}, o.GetKind()) {
		return resource
	}
	return resource.Namespace(o.GetNamespace())
}

// apply applies an object on the server, and returns it without the fields that a server sets.
func (c cluster) apply(t *testing.T, manager, text string) (*unstructured.Unstructured, error) {
	t.Helper()
	o := parse(t, text)
	out, err := c.of(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	return out, nil
}

const widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: one, namespace: default}\n"

// TestAnApplyIsRefusedAsByTheAPIServer has the texts of an API server. The second apply is of an object that exists.
func TestAnApplyIsRefusedAsByTheAPIServer(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown field of a custom resource":   {widget + "spec: {regon: x}", "failed to create typed patch object (default/one; example.org/v1, Kind=Widget): .spec.regon: field not declared in schema"},
		"an unknown field of its metadata":        {"apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: one, namespace: default, lables: {}}", "failed to create typed patch object (default/one; example.org/v1, Kind=Widget): .metadata.lables: field not declared in schema"},
		"an unknown field of Kubernetes":          {"{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default}, datta: {}}", "failed to create typed patch object (default/one; /v1, Kind=ConfigMap): .datta: field not declared in schema"},
		"another type":                            {widget + "spec: {region: {a: b}}", "failed to create typed patch object (default/one; example.org/v1, Kind=Widget): .spec.region: expected string, got "},
		"a required field of Kubernetes":          {"{apiVersion: v1, kind: Service, metadata: {name: one, namespace: default}, spec: {ports: [{name: http}]}}", `Service "one" is invalid: `},
		"fields of any name, and those of a part": {widget + "spec: {open: {a: {b: c}}, inner: {apiVersion: v1, kind: Thing, metadata: {name: a}, spec: {a: b}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(t)
			for _, when := range []string{"create", "change"} {
				got := ""
				if _, err := c.apply(t, "one", tc.text); err != nil {
					got = err.Error()
				}
				if !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
					t.Errorf("%s: got %q, want %q", when, got, tc.want)
				}
				o := parse(t, tc.text)
				valid := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": "one", "namespace": "default"}}
				if _, err := c.of(o).Create(t.Context(), &unstructured.Unstructured{Object: valid}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestObjectsAreStoredAsByTheAPIServer(t *testing.T) {
	c := begin(t)
	for name, tc := range map[string]struct{ first, second, want string }{
		"an empty map of Kubernetes is dropped":               {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {}}, data: {}}", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}"},
		"an empty map of a custom resource is kept":           {"{apiVersion: example.org/v1, kind: Widget, metadata: {name: b, namespace: default, annotations: {}}, spec: {open: {}}}", "", "{apiVersion: example.org/v1, kind: Widget, metadata: {name: b, namespace: default}, spec: {open: {}}}"},
		"the namespace of a cluster-scoped object is dropped": {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, namespace: prod}, rules: [{verbs: [get], nonResourceURLs: [/a]}]}", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{verbs: [get], nonResourceURLs: [/a]}]}"},
		"items of several managers are merged by their keys":  {"{apiVersion: example.org/v1, kind: Widget, metadata: {name: c, namespace: default}, spec: {ports: [{name: a, port: 1}]}}", "{apiVersion: example.org/v1, kind: Widget, metadata: {name: c, namespace: default}, spec: {ports: [{name: b, port: 2}]}}", "{apiVersion: example.org/v1, kind: Widget, metadata: {name: c, namespace: default}, spec: {ports: [{name: a, port: 1}, {name: b, port: 2}]}}"},
		"an empty map of another manager removes nothing":     {"{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: default}, data: {a: b}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: default}, data: {}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: default}, data: {a: b}}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.apply(t, "one", tc.first)
			if err == nil && tc.second != "" {
				got, err = c.apply(t, "two", tc.second)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestStrictWritesAreRefusedAsByTheAPIServer are those of users, who are told of unknown fields.
func TestStrictWritesAreRefusedAsByTheAPIServer(t *testing.T) {
	c := begin(t)
	for name, tc := range map[string]struct{ text, want string }{
		"of Kubernetes":                 {"{apiVersion: v1, kind: Service, metadata: {name: one, namespace: default, lables: {}}, spec: {port: [], ports: [{port: 80}]}}", `Service in version "v1" cannot be handled as a Service: strict decoding error: unknown field "metadata.lables", unknown field "spec.port"`},
		"of a custom resource":          {"{apiVersion: example.org/v1, kind: Widget, metadata: {name: one, namespace: default, lables: {}}, spec: {regon: x}}", `Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "metadata.lables", unknown field "spec.regon"`},
		"of a CustomResourceDefinition": {strings.Replace(widgets, "widgets.example.org, ", "widgets.example.com, lables: {}, ", 1), `CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: strict decoding error: unknown field "metadata.lables"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.text)
			got := ""
			if _, err := c.of(o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
