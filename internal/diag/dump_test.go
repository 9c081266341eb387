package diag_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestWithoutDumps(t *testing.T) {
	long := strings.Repeat("a", 300)
	cases := map[string]struct{ message, want string }{
		"A Go value as JSON, as API servers write it now": {
			`Job.batch "j" is invalid: spec.template: Invalid value: {"labels":{"a":"}"},"Spec":{"Volumes":null,"Containers":[{"Name":"c"}]}}: field is immutable`,
			`Job.batch "j" is invalid: spec.template: Invalid value: field is immutable`,
		},
		"A Go value as Go prints it": {
			`Job.batch "j" is invalid: spec.template: Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:"x: {", Labels:map[string]string{"a":"b"}}, Spec:core.PodSpec{Volumes:[]core.Volume(nil)}}: field is immutable`,
			`Job.batch "j" is invalid: spec.template: Invalid value: field is immutable`,
		},
		"Several, and among them what is short": {
			`X "x" is invalid: [spec.a: Invalid value: []string{"a", "b"}: no, spec.b: Invalid value: "B c": not so, spec.c: Unsupported value: ["x"]: supported values: "a", spec.d: Invalid value: 5: too much]`,
			`X "x" is invalid: [spec.a: Invalid value: no, spec.b: Invalid value: "B c": not so, spec.c: Unsupported value: supported values: "a", spec.d: Invalid value: 5: too much]`,
		},
		"A long text": {
			`X "x" is invalid: metadata.labels: Invalid value: "` + long + `\"": must be no more than 63 bytes`,
			`X "x" is invalid: metadata.labels: Invalid value: "` + long[:56] + `…": must be no more than 63 bytes`,
		},
		"A pointer in the middle": {
			`failed to create typed patch object (p/b; /v1, Kind=ConfigMap): .data.password: expected string, got &value.valueUnstructured{Value:5}`,
			`failed to create typed patch object (p/b; /v1, Kind=ConfigMap): .data.password: expected string, got …`,
		},
		"A comparison": {
			"Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image` (only so)\n@@ -1,2 +1,2 @@\n     {\n-     \"Value\": \"hunter2\",\n+     \"Value\": \"hunter3\",\n    ],\n",
			"Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image` (only so)",
		},
		"A comparison among several": {
			"X is invalid: [spec: Forbidden: no\n@@ -1 +1 @@\n-a\n+b\n, status: Required value]",
			"X is invalid: [spec: Forbidden: no\n, status: Required value]",
		},
		"A comparison as Go prints it": {
			"X is invalid: spec: Forbidden: may not change\n  core.PodSpec{\n  \t... // 2 identical fields\n- \tA: \"}\",\n  }\n",
			"X is invalid: spec: Forbidden: may not change\n  …",
		},
		"What is required isn't repeated": {`spec.a: Required value: {"a"} or [b]`, `spec.a: Required value: {"a"} or [b]`},
		"A value without an end":          {`Invalid value: {"a": [1, 2`, "Invalid value"},
		"A webhook's own words": {
			"admission webhook \"a.b\" denied the request: \nresource Pod/x:\n  rule: {\"a\": 1} is not allowed [b.c] f(x) a{2}",
			"admission webhook \"a.b\" denied the request: \nresource Pod/x:\n  rule: {\"a\": 1} is not allowed [b.c] f(x) a{2}",
		},
		"Nothing": {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := diag.WithoutDumps(tc.message); got != tc.want {
				t.Errorf("want %s\n got %s", tc.want, got)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("(Invalid value: |core\\.Pod|\\{|\\}|\"|`|\\\\|: |\n@@ |\n-|a){0,12}").Draw(t, "text")
		once := diag.WithoutDumps(text)
		if len(once) > len(text) || !utf8.ValidString(once) {
			t.Fatalf("%q grew to %q", text, once)
		}
	})
}

func TestTruncateMiddle(t *testing.T) {
	cases := map[string]struct {
		text  string
		bytes int
		want  string
	}{
		"A text that fits stays":              {"subnet", 6, "subnet"},
		"A longer one keeps both ends":        {"the subnet is immutable", 13, "the s…table"},
		"A character is kept or goes whole":   {"éééééé", 9, "é…é"},
		"What is no UTF-8 is escaped":         {"a\xffb", 6, `a\xffb`},
		"Nothing is shorter than an ellipsis": {"subnet", 0, "…"},
		"Nothing stays nothing":               {"", 0, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := diag.TruncateMiddle(tc.text, tc.bytes); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text, bytes := rapid.String().Draw(t, "text"), rapid.IntRange(3, 40).Draw(t, "bytes")
		got := diag.TruncateMiddle(text, bytes)
		head, tail, cut := strings.Cut(got, "…")
		whole := diag.Printable(text)
		if len(got) > bytes || !utf8.ValidString(got) || cut && len(text) > bytes && (!strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail)) {
			t.Fatalf("%q shortened to %d bytes is %q", text, bytes, got)
		}
	})
}
