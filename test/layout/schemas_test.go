package layout

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// schemaRecord has, for each CustomResourceDefinition, the number of its schema and the digest of the spec that has it.
const schemaRecord = "testdata/schemas.txt"

// schema is a numbered schema.
type schema struct {
	number uint64
	digest string
}

// TestAChangedSchemaHasANewNumber: the number prevents that a program of an older release, such as a provider that was
// built with it, replaces the CustomResourceDefinition and removes fields.
func TestAChangedSchemaHasANewNumber(t *testing.T) {
	recorded, next := readSchemas(t), map[string]schema{}
	for _, pattern := range []string{"../../api/*/crds/*.yaml", "../../api/*/*/crds/*.yaml", "../../providers/*/*/crds/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			name, is := schemaOf(t, file)
			next[name] = is
			was, known := recorded[name]
			switch {
			case is.number == 0:
				t.Errorf("%s has no number in the annotation %s: add a marker kubebuilder:metadata:annotations to its type", file, v1alpha1.SchemaAnnotation)
			case known && is.number < was.number:
				t.Errorf("%s has the number %d, after %d: it must not decrease", file, is.number, was.number)
			case known && is.number == was.number && is.digest != was.digest:
				t.Errorf("the schema of %s has changed: increase the number %d in the marker kubebuilder:metadata:annotations of its type, run go generate there, and run this test with -update", file, is.number)
				next[name] = was
			}
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintln(&text, name, next[name].number, next[name].digest)
	}
	golden.Compare(t, schemaRecord, text.String())
}

func readSchemas(t *testing.T) map[string]schema {
	t.Helper()
	raw, err := os.ReadFile(schemaRecord)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := map[string]schema{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%s: %q", schemaRecord, line)
		}
		number, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[fields[0]] = schema{number, fields[2]}
	}
	return out
}

// schemaOf reads the schema of a CustomResourceDefinition. Descriptions do not count.
func schemaOf(t *testing.T, file string) (name string, is schema) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(raw, &o.Object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	number, _ := strconv.ParseUint(o.GetAnnotations()[v1alpha1.SchemaAnnotation], 10, 64)
	return o.GetName(), schema{number, object.Digest(withoutDescriptions(o.Object["spec"]))}
}

func withoutDescriptions(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range value {
			if _, isText := item.(string); key != "description" || !isText { // a field may have that name
				out[key] = withoutDescriptions(item)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = withoutDescriptions(item)
		}
		return out
	default:
		return value
	}
}
