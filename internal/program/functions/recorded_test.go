package functions_test

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/program/functions"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// record names an original program, started with --insecure, and its address: function-sequencer=127.0.0.1:9443. Its
// answers replace the recorded ones.
var record = flag.String("record", "", "NAME=ADDRESS of the program whose answers are recorded")

// recording contains requests of ours, with the answers of an original program.
type recording struct {
	// Base is the part that all requests have.
	Base  map[string]any  `json:"base"`
	Cases []*recordedCase `json:"cases"`
}

type recordedCase struct {
	Name string `json:"name"`
	// Differs says how the built-in function differs on purpose.
	Differs string `json:"differs,omitempty"`
	// Template is short for an input of function-go-templating.
	Template string         `json:"template,omitempty"`
	Input    map[string]any `json:"input,omitempty"`
	Request  map[string]any `json:"request,omitempty"`
	Response map[string]any `json:"response"`
}

func (c *recordedCase) request(t *testing.T, base map[string]any) *fnv1.RunFunctionRequest {
	t.Helper()
	all := merged(base, c.Request)
	if c.Input != nil {
		all["input"] = c.Input
	}
	if c.Template != "" {
		all["input"] = map[string]any{"apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate", "source": "Inline",
			"inline": map[string]any{"template": c.Template}}
	}
	text, err := yaml.Marshal(all)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	out := &fnv1.RunFunctionRequest{}
	if err == nil {
		err = protojson.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range b {
		before, isMap := out[key].(map[string]any)
		if after, both := value.(map[string]any); isMap && both {
			value = merged(before, after)
		}
		out[key] = value
	}
	return out
}

// comparable is an answer without what may differ: the time to live, texts, everything else beside an error,
// empty annotations, requirements of schemas and for earlier versions of the protocol, and the condition of graphs.
func comparable(t *testing.T, response *fnv1.RunFunctionResponse) map[string]any {
	t.Helper()
	for _, result := range response.GetResults() {
		if result.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			return map[string]any{"fatal": result.GetMessage()}
		}
	}
	for _, result := range response.GetResults() {
		result.Message = ""
		if result.GetTarget() == fnv1.Target_TARGET_COMPOSITE {
			result.Target = nil // the default
		}
	}
	response.Meta, response.Conditions = nil, slices.DeleteFunc(response.GetConditions(), func(c *fnv1.Condition) bool { return c.GetType() == graph.Resolved })
	if r := response.GetRequirements(); r != nil {
		r.ExtraResources, r.Schemas = nil, nil //nolint:staticcheck // functions still ask this way
	}
	text, err := protojson.Marshal(response)
	var out map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return withoutEmpty(out).(map[string]any)
}

// withoutEmpty also drops objects that become empty, and annotations and labels with which graphs remember their resources.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if strings.HasPrefix(key, "espalier.dev/") || strings.HasPrefix(key, "internal.kro.run/") || strings.HasPrefix(key, "kro.run/") {
				delete(v, key)
				continue
			}
			value = withoutEmpty(value)
			if below, isMap := value.(map[string]any); isMap && len(below) == 0 {
				delete(v, key)
				continue
			}
			v[key] = value
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}

// TestOriginalProgramsAnswerTheSame compares answers with those of the original programs.
func TestOriginalProgramsAnswerTheSame(t *testing.T) {
	paths, err := filepath.Glob("testdata/recorded/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := functions.BuiltIn()
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		text, err := os.ReadFile(path)
		var file recording
		if err == nil {
			err = yaml.UnmarshalStrict(text, &file)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			original, address, _ := strings.Cut(*record, "=")
			if original == name {
				file.record(t, path, address)
			}
			for _, c := range file.Cases {
				t.Run(c.Name, func(t *testing.T) {
					response, err := all[name](t.Context(), c.request(t, file.Base))
					if err != nil {
						t.Fatal(err)
					}
					c.compare(t, comparable(t, response))
				})
			}
		})
	}
}

func (c *recordedCase) compare(t *testing.T, got map[string]any) {
	t.Helper()
	_, fails := got["fatal"]
	if _, failed := c.Response["fatal"]; failed && fails {
		return // in other words
	}
	diff := cmp.Diff(c.Response, got)
	switch {
	case c.Differs == "" && diff != "":
		t.Errorf("(-original +built in):\n%s", diff)
	case c.Differs != "" && diff == "":
		t.Errorf("the answers are the same, although %s", c.Differs)
	}
}

type original string

func (a original) Endpoint(context.Context, string) (pipeline.Endpoint, error) {
	return pipeline.Endpoint{Target: string(a), Insecure: true}, nil
}

func (f *recording) record(t *testing.T, path, address string) {
	t.Helper()
	remote := pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: original(address)})
	defer remote.Close()
	for _, c := range f.Cases {
		response, err := remote.Run(t.Context(), "original", c.request(t, f.Base))
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		c.Response = comparable(t, response)
	}
	text, err := yaml.Marshal(f)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
