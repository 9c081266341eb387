package kube_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	dialect "github.com/espalier-dev/espalier/api/apiextensions"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	revisions "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
)

// statusServer stores the status of one object as the API server does with a schema, and counts the writes.
type statusServer struct {
	dynamic.NamespaceableResourceInterface
	schema *structural.Structural
	writes int
}

func (s *statusServer) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return s
}

func (s *statusServer) Namespace(string) dynamic.ResourceInterface { return s }

func (s *statusServer) UpdateStatus(_ context.Context, o *unstructured.Unstructured, _ metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	s.writes++
	stored := o.DeepCopy()
	pruning.Prune(stored.Object, s.schema, true)
	defaulting.Default(stored.Object, s.schema)
	return stored, nil
}

// TestAStatusIsNotWrittenAgainForFieldsThatAreNotStored takes each field of each status of ours out of the schema.
func TestAStatusIsNotWrittenAgainForFieldsThatAreNotStored(t *testing.T) {
	tried := 0
	for _, c := range ownCRDs(t) {
		for _, version := range c.Spec.Versions {
			status := version.Schema.OpenAPIV3Schema.Properties["status"]
			for _, path := range statusFields(status, nil) {
				tried++
				synctest.Test(t, func(t *testing.T) { checkWithoutField(t, c.Spec.Names.Kind, status, path) })
			}
		}
	}
	if tried < 150 {
		t.Errorf("only %d fields were tried", tried)
	}
}

func checkWithoutField(t *testing.T, kind string, full apiextensionsv1.JSONSchemaProps, path []string) {
	t.Helper()
	at := kind + " status." + strings.Join(path, ".")
	lacking := full.DeepCopy()
	removeField(lacking, path)
	server := &statusServer{schema: structuralOf(t, *lacking)}
	client := kube.NewClient(server, resolved{})
	o := newThing()
	write := func(n int64) {
		answer, err := client.WriteStatus(t.Context(), o, sample(full, n, path).(map[string]any), "m")
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		o = answer
	}
	write(1)
	for n := range int64(3) {
		write(n) // the field that is not stored has another value each time
	}
	if server.writes != 1 {
		t.Fatalf("%s is not stored, and the status was written %d times", at, server.writes)
	}
}

// TestAFieldThatIsNeverStoredIsHardlyEverSent reconciles an object each second, for an hour.
func TestAFieldThatIsNeverStoredIsHardlyEverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &statusServer{schema: structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}))}
		client := kube.NewClient(server, resolved{})
		o := newThing()
		rechecks := 0
		for range 60 * 60 {
			var err error
			if o, err = client.WriteStatus(t.Context(), o, map[string]any{"a": "1", "b": "1"}, "m"); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			if client.StatusRecheck(o.GroupVersionKind()) > 0 {
				rechecks++
			}
		}
		if server.writes > 30 || rechecks == 0 || rechecks > 60 {
			t.Errorf("%d writes, and %d reconciles that request another", server.writes, rechecks)
		}
	})
}

// TestAStatusIsWrittenForAnyOtherChange changes, adds and removes stored fields beside one that is not stored.
func TestAStatusIsWrittenForAnyOtherChange(t *testing.T) {
	lacking := structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{
		"a": {Type: "string"}, "b": {Type: "string"}, "seen": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("-1")}},
		"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"type": {Type: "string"}},
		}}},
	}))
	item := func(name string) any { return map[string]any{"type": name, "unknown": name} }
	before := map[string]any{"a": "1", "unknown": "1", "list": []any{item("x")}}
	for name, tc := range map[string]struct {
		next   map[string]any
		writes int
	}{
		"the same":                                {before, 0},
		"another value of an unknown field":       {map[string]any{"a": "1", "unknown": "2", "list": []any{item("x")}}, 0},
		"without the unknown field":               {map[string]any{"a": "1", "list": []any{item("x")}}, 0},
		"a field without a value":                 {map[string]any{"a": "1", "b": nil, "list": []any{item("x")}}, 0},
		"another value":                           {map[string]any{"a": "2", "unknown": "1", "list": []any{item("x")}}, 1},
		"another field":                           {map[string]any{"a": "1", "b": "1", "unknown": "1", "list": []any{item("x")}}, 1},
		"a field less":                            {map[string]any{"unknown": "1", "list": []any{item("x")}}, 1},
		"another item":                            {map[string]any{"a": "1", "unknown": "1", "list": []any{item("y")}}, 1},
		"one item more":                           {map[string]any{"a": "1", "unknown": "1", "list": []any{item("x"), item("y")}}, 1},
		"another value of a field with a default": {map[string]any{"a": "1", "unknown": "1", "list": []any{item("x")}, "seen": int64(3)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &statusServer{schema: lacking}
				client := kube.NewClient(server, resolved{})
				o := newThing()
				for _, status := range []map[string]any{before, tc.next} {
					var err error
					if o, err = client.WriteStatus(t.Context(), o, status, "m"); err != nil {
						t.Fatal(err)
					}
				}
				if server.writes != 1+tc.writes {
					t.Errorf("%d writes, want %d", server.writes, 1+tc.writes)
				}
			})
		})
	}
}

// TestAFieldIsSentOnceTheSchemaHasIt gives the schema the field that it lacked.
func TestAFieldIsSentOnceTheSchemaHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		server := &statusServer{schema: structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{"a": text}))}
		client := kube.NewClient(server, resolved{})
		o := newThing()
		status := map[string]any{"a": "1", "b": "1"}
		o, err := client.WriteStatus(t.Context(), o, status, "m")
		if err != nil {
			t.Fatal(err)
		}
		server.schema = structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{"a": text, "b": text}))
		<-time.After(2 * time.Second)
		if o, err = client.WriteStatus(t.Context(), o, status, "m"); err != nil {
			t.Fatal(err)
		}
		if b, _, _ := unstructured.NestedString(o.Object, "status", "b"); b != "1" || server.writes != 2 {
			t.Errorf("after %d writes, the field has the value %q", server.writes, b)
		}
	})
}

// TestAFieldIsSentForEachObjectOnceTheSchemaHasIt gives the schema one of two fields that it lacked.
func TestAFieldIsSentForEachObjectOnceTheSchemaHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		server := &statusServer{schema: structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{"a": text}))}
		client := kube.NewClient(server, resolved{})
		objects := []*unstructured.Unstructured{newThing(), newThing()}
		write := func() {
			for i, o := range objects {
				var err error
				if objects[i], err = client.WriteStatus(t.Context(), o, map[string]any{"a": "1", "b": "1", "c": "1"}, "m"); err != nil {
					t.Fatal(err)
				}
			}
		}
		write()
		server.schema = structuralOf(t, statusOf(map[string]apiextensionsv1.JSONSchemaProps{"a": text, "b": text}))
		<-time.After(2 * time.Second)
		write()
		for i, o := range objects {
			if b, _, _ := unstructured.NestedString(o.Object, "status", "b"); b != "1" {
				t.Errorf("object %d has the value %q", i, b)
			}
		}
	})
}

// structuralOf is the schema of a kind with a status.
func structuralOf(t *testing.T, status apiextensionsv1.JSONSchemaProps) *structural.Structural {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": status}}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&root, &internal, nil); err != nil {
		t.Fatal(err)
	}
	out, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func statusOf(fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields}
}

func newThing() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}}}
}

// ownCRDs are the CustomResourceDefinitions of the kinds whose statuses the controllers write.
func ownCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, files := range []fs.FS{v1alpha1.CRDs, revisions.CRDs, dialect.CRDs, pkg.CRDs, protection.CRDs, espalier.CRDs} {
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			c := &apiextensionsv1.CustomResourceDefinition{}
			out = append(out, c)
			return yaml.Unmarshal(raw, c)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// statusFields are the paths of all fields below a schema; the fields of a list's items are fields of the list.
func statusFields(s apiextensionsv1.JSONSchemaProps, at []string) (out [][]string) {
	if s.Items != nil && s.Items.Schema != nil {
		return statusFields(*s.Items.Schema, at)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		path := append(slices.Clone(at), name)
		out = append(append(out, path), statusFields(s.Properties[name], path)...)
	}
	return out
}

// removeField removes the field with a path from a schema.
func removeField(s *apiextensionsv1.JSONSchemaProps, path []string) {
	if s.Items != nil && s.Items.Schema != nil {
		s = s.Items.Schema
	}
	if len(path) == 1 {
		delete(s.Properties, path[0])
		s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == path[0] })
		s.XListMapKeys, s.XValidations = nil, nil
		return
	}
	field := s.Properties[path[0]]
	field.XListMapKeys, field.XListType, field.XValidations = nil, nil, nil
	removeField(&field, path[1:])
	s.Properties[path[0]] = field
}

// sample is a value of a schema with all of its fields; what is at the path or below it has the value n.
func sample(s apiextensionsv1.JSONSchemaProps, n int64, path []string) any {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return []any{sample(*s.Items.Schema, n, path)}
	case s.Type == "object":
		out := map[string]any{}
		for name, field := range s.Properties {
			switch {
			case len(path) == 0:
				out[name] = sample(field, n, nil)
			case name == path[0]:
				out[name] = sample(field, n, path[1:])
			default:
				out[name] = sample(field, 1, nil)
			}
		}
		return out
	case s.Type == "integer":
		return n
	case s.Type == "boolean":
		return n%2 == 0
	}
	return fmt.Sprint("value ", n)
}
