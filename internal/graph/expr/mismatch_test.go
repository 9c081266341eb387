package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRenderReportsValuesThatDoNotFit(t *testing.T) {
	const secret = "Hunter2!"
	cases := map[string]struct {
		reason  string
		schema  string
		doc     any
		want    string // of the error; empty where the document is rendered
		without string // of what was computed; empty for the same
	}{
		"Text where base64 belongs": {
			"a Secret's data is bytes", secretSchema, map[string]any{"data": map[string]any{"p": "${raw.text}"}},
			"x.data.p: the value is not base64; expected " + base64Text, "",
		},
		"Text made of parts": {
			"the whole counts", secretSchema, map[string]any{"data": map[string]any{"p": "a${raw.base64}"}},
			"x.data.p: the value is not base64; expected " + base64Text, "",
		},
		"A map of texts": {
			"its keys are computed", secretSchema, map[string]any{"data": "${{'b': raw.text, 'a': 'hunter2', 'c': raw.base64}}"},
			"x.data.a: the value is not base64; expected " + base64Text, "x.data: the value is not base64; expected " + base64Text,
		},
		"Base64":                {"it is what belongs there", secretSchema, map[string]any{"data": map[string]any{"p": "${raw.base64}"}}, "", ""},
		"Base64 of two parts":   {"the whole counts", secretSchema, map[string]any{"data": map[string]any{"p": "aHV${'udGVy'}"}}, "", ""},
		"Base64 in two lines":   {"JSON's decoders ignore that", secretSchema, map[string]any{"data": map[string]any{"p": "${'aHVu\\ndGVy'}"}}, "", ""},
		"Bytes":                 {"they are written as base64", secretSchema, map[string]any{"data": map[string]any{"p": "${bytes(raw.text)}"}}, "", ""},
		"Nothing":               {"it is left out", secretSchema, map[string]any{"data": map[string]any{"p": "${raw.?nothing}"}}, "", ""},
		"A null":                {"it leaves a field to its default", secretSchema, map[string]any{"data": "${raw.none}"}, "", ""},
		"An integer for a text": {"it could be anything", deploymentSchema, map[string]any{"metadata": map[string]any{"name": "${raw.five}"}}, "x.metadata.name: the value is an integer; expected a string", ""},
		"A text for a list":     {"it could be anything", deploymentSchema, map[string]any{"spec": map[string]any{"containers": "${raw.text}"}}, "x.spec.containers: the value is a string; expected a list of objects", ""},
		"Deep in a list": {
			"each item is looked at", deploymentSchema, map[string]any{"spec": map[string]any{"containers": "${[{'name': 'a'}, {'name': dyn(5)}]}"}},
			"x.spec.containers[1].name: the value is an integer; expected a string", "x.spec.containers: the value is an integer; expected a string",
		},
		"A list for an object":           {"it could be anything", deploymentSchema, map[string]any{"spec": "${raw.list}"}, "x.spec: the value is a list; expected an object", ""},
		"A whole number for a number":    {"JSON has one kind of them", deploymentSchema, map[string]any{"spec": map[string]any{"weight": "${raw.five}"}}, "", ""},
		"A number for a quantity":        {"it may be written as one", deploymentSchema, map[string]any{"spec": map[string]any{"limits": map[string]any{"cpu": "${raw.five}"}}}, "", ""},
		"A field that the schema hasn't": {"the API server may prune it", deploymentSchema, map[string]any{"spec": "${raw.other}"}, "", ""},
	}
	env := testEnv(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, problems := env.Template(tc.doc, schemaOf(t, tc.schema), "x")
			if problems != nil {
				t.Fatal(problems.Err())
			}
			vars := worldVars(t)
			vars["raw"] = map[string]any{
				"text": secret, "base64": "aHVudGVy", "none": nil, "five": int64(5), "list": []any{"a"}, "other": map[string]any{"other": "a"},
			}
			got, err := template.Render(vars)
			var m *Mismatch
			if !errors.As(err, &m) {
				if tc.want != "" || err != nil {
					t.Fatalf("%s: got %v, %v", tc.reason, got, err)
				}
				return
			}
			if tc.without == "" {
				tc.without = tc.want
			}
			if diff := cmp.Diff([]string{tc.want, tc.without}, []string{m.Error(), m.Redacted()}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if strings.Contains(err.Error(), secret) {
				t.Error("the value is told")
			}
		})
	}
}

func TestLiteralsThatAreNotBase64AreNotRepeated(t *testing.T) {
	doc := map[string]any{"data": map[string]any{"good": "aHVudGVy", "none": "", "bad": "hunter2!"}}
	_, problems := testEnv(t).Template(doc, schemaOf(t, secretSchema), "x")
	if want := "x.data.bad: the value is not base64; expected " + base64Text; len(problems) != 1 || problems.Err().Error() != want {
		t.Errorf("want %s\n got %v", want, problems)
	}
}
