package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
)

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

func admissionOf(t *testing.T, o *unstructured.Unstructured) *Admission {
	t.Helper()
	a, err := New(o.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	configMap  = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, "
	deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: "
	container  = "{name: app, image: app}"
)

// TestObjectsAreStoredWithoutWhatIsEmpty has what the API server returns, without its defaults. TestOfflineIsAsTheServer compares
// with one.
func TestObjectsAreStoredWithoutWhatIsEmpty(t *testing.T) {
	for name, tc := range map[string]struct{ written, want string }{
		"an empty map":            {configMap + "data: {}}", configMap + "}"},
		"an empty map below":      {"{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {}}, spec: {nodeSelector: {}, containers: [{name: app, env: []}]}}", "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}]}}"},
		"an empty string":         {"{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {hostname: '', containers: [{name: app}]}}", "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}]}}"},
		"an empty object":         {"{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}], volumes: [{name: tmp, emptyDir: {}}]}}", "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}], volumes: [{name: tmp, emptyDir: {}}]}}"},
		"an empty selector":       {"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: one}, spec: {podSelector: {}, ingress: [{}]}}", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: one}, spec: {podSelector: {}, ingress: [{}]}}"},
		"a null":                  {configMap + "data: null}", configMap + "}"},
		"a list that is required": {"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: one}, rules: []}", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: one}}"},
		"a quantity":              {"{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app, resources: {limits: {cpu: 0.5, memory: 1024Mi}}}]}}", "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app, resources: {limits: {cpu: 500m, memory: 1Gi}}}]}}"},
		"a field of no type":      {configMap + "datta: {a: b}, data: {a: b}}", configMap + "data: {a: b}}"},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.written)
			got, problems := admissionOf(t, o).Admit(o, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(parse(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectsThatTheServerRefusesAreNotAdmitted(t *testing.T) {
	for name, tc := range map[string]struct{ written, want string }{
		"a required field":          {deployment + "{template: {metadata: {labels: {a: b}}, spec: {containers: [" + container + "]}}}}", "spec.selector: Required value"},
		"a required field of items": {deployment + "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{image: app}]}}}}", "spec.template.spec.containers[0].name: Required value"},
		"an enum":                   {deployment + "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Sometimes, containers: [" + container + "]}}}}", "spec.template.spec.restartPolicy: Unsupported value"},
		"another type":              {configMap + "data: {a: 1}}", "cannot unmarshal number into Go struct field ConfigMap.data of type string"},
		"a name":                    {"{apiVersion: v1, kind: ConfigMap, metadata: {name: One}}", "metadata.name: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.written)
			if _, problems := admissionOf(t, o).Admit(o, nil); len(problems) != 1 || !strings.Contains(problems[0].Error(), tc.want) {
				t.Errorf("got %v, want one with %q", problems, tc.want)
			}
		})
	}
}

func TestUnknownFieldsAreListed(t *testing.T) {
	o := parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: one, lables: {}}, spec: {containers: [{name: app, imag: x}], colour: red}}")
	if diff := cmp.Diff([]string{"metadata.lables", "spec.colour", "spec.containers[0].imag"}, admissionOf(t, o).UnknownFields(o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryBuiltInKindIsAdmitted(t *testing.T) {
	for _, k := range builtin.Kinds() {
		if k.Group == "apiregistration.k8s.io" {
			continue // without aggregated API servers
		}
		if _, err := New(k.GroupVersionKind()); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(schema.GroupVersionKind{Group: "apps", Version: "v2", Kind: "Deployment"}); err == nil {
		t.Error("a version that Kubernetes does not have is admitted")
	}
}
