package pipeline_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func TestInvalidResponses(t *testing.T) {
	composite := func(text string) func(*response) {
		return func(r *response) { r.Desired.Composite = &fnv1.Resource{Resource: object(t, text)} }
	}
	resource := func(name, text string) func(*response) {
		return func(r *response) { r.Desired.Resources[name] = &fnv1.Resource{Resource: object(t, text)} }
	}
	condition := func(kind string) func(*response) {
		return func(r *response) { r.Conditions = []*fnv1.Condition{{Type: kind, Reason: "Because"}} }
	}
	require := func(s *fnv1.ResourceSelector) func(*response) {
		return func(r *response) {
			r.Requirements = &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{"x": s}}
		}
	}
	many := func(n int, add func(r *response, i int)) func(*response) {
		return func(r *response) {
			for i := range n {
				add(r, i)
			}
		}
	}
	cases := map[string]struct {
		wrong func(*response)
		want  string // "" if it makes sense
	}{
		"Nothing at all":                     {func(*response) {}, ""},
		"A composite of another kind":        {composite(`{"kind":"Other"}`), `desired.composite is another object: its kind is "Other", not "App"`},
		"A composite of another version":     {composite(`{"apiVersion":"example.org/v2"}`), `desired.composite is another object: its apiVersion is "example.org/v2", not "example.org/v1"`},
		"A composite of another name":        {composite(`{"metadata":{"name":"x"}}`), `desired.composite is another object: its name is "x", not "shop"`},
		"A composite of another namespace":   {composite(`{"metadata":{"namespace":"x"}}`), `desired.composite is another object: its namespace is "x", not "team"`},
		"A composite that says who it is":    {composite(`{"apiVersion":"example.org/v1","kind":"App","metadata":{"name":"shop","namespace":"team"}}`), ""},
		"A composite with a status alone":    {composite(`{"status":{}}`), ""},
		"A composite with an odd number":     {func(r *response) { r.Desired.Composite = &fnv1.Resource{Resource: odd()} }, `desired.composite cannot be decoded: x: not a finite number`},
		"A context with an odd number":       {func(r *response) { r.Context = odd() }, `context cannot be decoded: x: not a finite number`},
		"A resource that is nothing":         {func(r *response) { r.Desired.Resources["db"] = nil }, `desired.resources[db].apiVersion is required`},
		"A resource without a kind":          {resource("db", `{"apiVersion":"v1"}`), `desired.resources[db].kind is required`},
		"A resource with half a version":     {resource("db", `{"apiVersion":"a/b/c","kind":"A"}`), `desired.resources[db].apiVersion is invalid: "a/b/c"`},
		"A resource whose kind is a number":  {resource("db", `{"apiVersion":"v1","kind":7}`), `desired.resources[db].kind must be a string`},
		"A resource whose version is a list": {resource("db", `{"apiVersion":[],"kind":"A"}`), `desired.resources[db].apiVersion must be a string`},
		"A resource whose metadata is text":  {resource("db", `{"apiVersion":"v1","kind":"A","metadata":"x"}`), `desired.resources[db].metadata must be an object`},
		"A resource with a path for a name":  {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"name":"../x"}}`), `desired.resources[db].metadata.name is invalid: "../x"`},
		"A resource with a name of a role":   {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"name":"system:x"}}`), ""},
		"A resource with a very long name":   {resource("db", fmt.Sprintf(`{"apiVersion":"v1","kind":"A","metadata":{"name":%q}}`, strings.Repeat("x", 254))), `desired.resources[db].metadata.name is invalid: "` + strings.Repeat("x", 80) + `"`},
		"A resource in an odd namespace":     {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"namespace":"A b"}}`), `desired.resources[db].metadata.namespace is invalid: "A b"`},
		"A resource whose name is a number":  {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"name":1}}`), `desired.resources[db].metadata.name must be a string`},
		"A resource with a label of numbers": {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":1}}}`), `desired.resources[db].metadata.labels[a] must be a string`},
		"A resource with a list of labels":   {resource("db", `{"apiVersion":"v1","kind":"A","metadata":{"labels":[]}}`), `desired.resources[db].metadata.labels must be an object`},
		"A resource without a name":          {resource("", `{"apiVersion":"v1","kind":"A"}`), `desired.resources: the name "" is empty`},
		"A resource with a name in control":  {resource("a\nb", `{"apiVersion":"v1","kind":"A"}`), `desired.resources: the name "a\nb" has a character that cannot be printed`},
		"A resource with a name of stray":    {resource("a\xffb", `{"apiVersion":"v1","kind":"A"}`), `desired.resources: the name "a\xffb" is not valid UTF-8`},
		"A resource with an endless name":    {resource(strings.Repeat("x", 300), `{"apiVersion":"v1","kind":"A"}`), `desired.resources: the name "` + strings.Repeat("x", 80) + `" is longer than 253 bytes`},
		"A resource with an odd number":      {func(r *response) { r.Desired.Resources["db"] = &fnv1.Resource{Resource: odd()} }, `desired.resources[db] cannot be decoded: x: not a finite number`},
		"Too many resources":                 {many(11, func(r *response, i int) { r.Desired.Resources[fmt.Sprint(i)] = nil }), `desired.resources has 11 items, over the limit of 10`},
		"Too many results":                   {many(6, func(r *response, _ int) { r.Results = append(r.Results, nil) }), `results has 6 items, over the limit of 5`},
		"Results that are nothing":           {many(5, func(r *response, _ int) { r.Results = append(r.Results, nil) }), ""},
		"Too many conditions":                {many(5, func(r *response, i int) { r.Conditions = append(r.Conditions, &fnv1.Condition{Type: fmt.Sprint(i)}) }), `conditions has 5 items, over the limit of 4`},
		"A condition that is ours":           {condition("Ready"), ""},
		"A condition without a type":         {condition(""), `conditions[0].type is not a valid condition type: ""`},
		"A condition of two words":           {condition("Is Up"), `conditions[0].type is not a valid condition type: "Is Up"`},
		"A condition of a domain":            {condition("example.org/Up"), ""},
		"A condition that is nothing":        {func(r *response) { r.Conditions = []*fnv1.Condition{nil} }, `conditions[0].type is not a valid condition type: ""`},
		"A negative time to live":            {func(r *response) { r.Meta = &fnv1.ResponseMeta{Ttl: &durationpb.Duration{Seconds: -1}} }, `meta.ttl is not a valid duration: -1 seconds and 0 nanoseconds`},
		"A time to live of mixed signs":      {func(r *response) { r.Meta = &fnv1.ResponseMeta{Ttl: &durationpb.Duration{Seconds: 1, Nanos: -1}} }, `meta.ttl is not a valid duration: 1 seconds and -1 nanoseconds`},
		"An endless time to live":            {func(r *response) { r.Meta = &fnv1.ResponseMeta{Ttl: &durationpb.Duration{Seconds: math.MaxInt64}} }, `meta.ttl is not a valid duration: 9223372036854775807 seconds and 0 nanoseconds`},
		"A selector that is nothing":         {require(nil), `requirements.resources[x].apiVersion is required`},
		"A selector of everything":           {require(&fnv1.ResourceSelector{ApiVersion: "v1", Kind: "A"}), `requirements.resources[x].match is required: match_name or match_labels`},
		"A selector of an odd name":          {require(byName("v1", "A", "a/b")), `requirements.resources[x].match_name is invalid: "a/b"`},
		"A selector of an odd label": {require(&fnv1.ResourceSelector{ApiVersion: "v1", Kind: "A", Match: &fnv1.ResourceSelector_MatchLabels{
			MatchLabels: &fnv1.MatchLabels{Labels: map[string]string{"a": "b c"}}}}), `requirements.resources[x].match_labels has an invalid label: "a"="b c"`},
		"A selector of an odd namespace": {func() func(*response) {
			s := byName("v1", "A", "a")
			s.Namespace = new(string)
			*s.Namespace = "A/"
			return require(s)
		}(), `requirements.resources[x].namespace is invalid: "A/"`},
		"Too many requirements": {func(r *response) {
			r.Requirements = &fnv1.Requirements{Schemas: map[string]*fnv1.SchemaSelector{"1": nil, "2": nil, "3": nil, "4": nil}}
		}, `requirements has 4 items, over the limit of 3`},
		"A schema of nothing": {func(r *response) {
			r.Requirements = &fnv1.Requirements{Schemas: map[string]*fnv1.SchemaSelector{"1": nil}}
		}, `requirements.schemas[1].apiVersion is required`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, steps := running(func(r *request) *response {
				out := on(r)
				tc.wrong(out)
				return out
			})
			p.ResponseLimits = pipeline.ResponseLimits{MaxResources: 10, MaxResults: 5, MaxConditions: 4, MaxRequirements: 3}
			got := p.Run(t.Context(), steps, world(t))
			if tc.want == "" {
				if got.Failure != nil {
					t.Errorf("want it accepted, got %v", got.Failure)
				}
				return
			}
			var answer *pipeline.ResponseError
			if want := `step "a" (function fn-a): the function's response: ` + tc.want; got.Failure == nil || got.Failure.Error() != want || !errors.As(got.Failure, &answer) || got.Failure.IsTransient() {
				t.Errorf("want %s\ngot  %v", want, got.Failure)
			}
		})
	}
}

// odd is a struct that JSON cannot say.
func odd() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(math.NaN())}}
}

func TestTheStepThatChangedAResourceLastFails(t *testing.T) {
	good, bad := `{"apiVersion":"v1","kind":"ConfigMap"}`, `{"apiVersion":"v1"}`
	set := func(text string) func(*request) *response {
		return func(r *request) *response {
			out := on(r)
			out.Desired.Resources["db"] = &fnv1.Resource{Resource: object(t, text)}
			return out
		}
	}
	markReady := func(r *request) *response {
		out := on(r)
		out.Desired.Resources["db"].Ready = fnv1.Ready_READY_TRUE
		return out
	}
	forgets := func(*request) *response { return &response{} }
	cases := map[string]struct {
		reason string
		steps  []func(*request) *response
		want   string
	}{
		"The one that made it":      {"later ones only handed it on", []func(*request) *response{set(bad), markReady, markReady}, "a"},
		"The one that broke it":     {"it was fine before", []func(*request) *response{set(good), set(bad), markReady}, "b"},
		"Nobody if it was mended":   {"what counts is what comes out", []func(*request) *response{set(bad), set(good)}, ""},
		"The one that forgets all":  {"nothing is deleted because of it", []func(*request) *response{set(good), forgets, markReady}, "b"},
		"Nobody if there was none":  {"there is nothing to forget", []func(*request) *response{forgets, set(good)}, ""},
		"The one that comes second": {"it is the last to have changed it", []func(*request) *response{set(bad), set(`{"apiVersion":"v2"}`)}, "b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, steps := running(tc.steps...)
			got := ""
			if out := p.Run(t.Context(), steps, world(t)); out.Failure != nil {
				got = out.Failure.Step
			}
			if got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestReservedConditionsAreDropped(t *testing.T) {
	p, steps := running(func(r *request) *response {
		out := on(r)
		for _, kind := range []string{"Ready", "Up", "Synced"} {
			out.Conditions = append(out.Conditions, &fnv1.Condition{Type: kind, Reason: "Because"})
		}
		return out
	})
	got := p.Run(t.Context(), steps, world(t))
	if got.Failure != nil || len(got.Conditions) != 1 || got.Conditions[0].Type != "Up" {
		t.Errorf("it fails with %v and has %v", got.Failure, got.Conditions)
	}
	if len(got.Results) != 2 || !got.Results[0].Warning || !strings.Contains(got.Results[0].Message, "Ready") {
		t.Errorf("it says %v", got.Results)
	}
}
