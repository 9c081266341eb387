package patchandtransform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
)

// scene is a call of the function, or several: each step is given what the one before it
// wanted. The input of a step is written without its apiVersion and kind, and so is the
// composite, which is an XR named x.
type scene struct {
	steps                     []string
	xr                        string
	observed, details, wanted string
	context                   string
	published                 string // connection details that the composite has already
}

func (s scene) run(t *testing.T) call.Response {
	t.Helper()
	in := map[string]string{
		"xr.yaml":       "{apiVersion: example.org/v1, kind: XR, metadata: {name: x, namespace: prod}, spec: {}}",
		"observed.yaml": s.observed, "details.yaml": s.details, "desired.yaml": s.wanted, "context.yaml": s.context,
	}
	var response call.Response
	for i, step := range s.steps {
		in["input.yaml"] = "{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, " + step + "}"
		r := request(t, in)
		for name, value := range functiontest.Object(t, s.xr) {
			r.Observed.Composite.Object[name] = value
		}
		r.Desired.Composite.ConnectionDetails = map[string][]byte{}
		for key, value := range functiontest.Object(t, s.published) {
			r.Desired.Composite.ConnectionDetails[key] = []byte(value.(string))
		}
		if i > 0 {
			r.Desired, r.Context = response.Desired, response.Context
		}
		response = Run(r)
	}
	return response
}

// answer is what an answer says, without what no function has anything to do with.
func answer(r call.Response) map[string]any {
	out := map[string]any{}
	var results []any
	for _, result := range r.Results {
		results = append(results, []string{"Warning: ", "Fatal: "}[result.Severity]+result.Message)
	}
	set(out, "results", results)
	composite := map[string]any{}
	for name, value := range r.Desired.Composite.Object {
		if name != "apiVersion" && name != "kind" {
			composite[name] = value
		}
	}
	set(out, "composite", composite)
	if r.Desired.Composite.Ready != call.Unspecified {
		out["ready"] = r.Desired.Composite.Ready == call.True
	}
	details := map[string]any{}
	for key, value := range r.Desired.Composite.ConnectionDetails {
		details[key] = string(value)
	}
	set(out, "details", details)
	resources := map[string]any{}
	for name, resource := range r.Desired.Resources {
		resources[name] = resource.Object
	}
	set(out, "resources", resources)
	environment := map[string]any{}
	given, _ := r.Context[EnvironmentKey].(map[string]any)
	for name, value := range given {
		if name != "apiVersion" && name != "kind" {
			environment[name] = value
		}
	}
	set(out, "environment", environment)
	return out
}

// set leaves out what is empty.
func set[T map[string]any | []any](out map[string]any, name string, value T) {
	if len(value) > 0 {
		out[name] = value
	}
}

func expect(t *testing.T, s scene, want string) {
	t.Helper()
	if diff := cmp.Diff(functiontest.Object(t, want), answer(s.run(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const v2 = "spec: {crossplane: {compositionRef: {name: c}}}"

func TestConnectionDetails(t *testing.T) {
	step := func(name, key, rest string) string {
		return "resources: [{name: " + name + ", base: {apiVersion: v1, kind: Pod}, connectionDetails: [{type: FromValue, name: " + key + ", value: " + key + "}]}]" + rest
	}
	const pods = "{a: {apiVersion: v1, kind: Pod}, b: {apiVersion: v1, kind: Pod}}"
	const a, b = "a: {apiVersion: v1, kind: Pod}", "b: {apiVersion: v1, kind: Pod}"
	const secret = "{apiVersion: v1, kind: Secret, type: connection.crossplane.io/v1alpha1, "
	cases := map[string]struct {
		scene
		want string
	}{
		"The Secret's resource is named after the composite": {
			scene{steps: []string{step("a", "k", "")}, xr: v2, observed: pods},
			"{details: {k: k}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k: aw==}}}}",
		},
		"A resource of the author's named connection-secret stays": {
			scene{steps: []string{step("connection-secret", "k", "")}, xr: v2, observed: "{connection-secret: {apiVersion: v1, kind: Pod}}"},
			"{details: {k: k}, resources: {connection-secret: {apiVersion: v1, kind: Pod}, x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k: aw==}}}}",
		},
		"The details of several steps end in one Secret": {
			scene{steps: []string{step("a", "k-a", ""), step("b", "k-b", "")}, xr: v2, observed: pods},
			"{details: {k-a: k-a, k-b: k-b}, resources: {" + a + ", " + b + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k-a: ay1h, k-b: ay1i}}}}",
		},
		"The last step's value of a key counts": {
			scene{steps: []string{step("a", "k", ""), strings.Replace(step("b", "k", ""), "value: k", "value: l", 1)}, xr: v2, observed: pods},
			"{details: {k: l}, resources: {" + a + ", " + b + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k: bA==}}}}",
		},
		"Details that another function has given the composite are in the Secret": {
			scene{steps: []string{step("a", "k", "")}, xr: v2, observed: pods, published: "{other: o}"},
			"{details: {k: k, other: o}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k: aw==, other: bw==}}}}",
		},
		"They are where a step has none of its own": {
			scene{steps: []string{"resources: [{name: a, base: {apiVersion: v1, kind: Pod}}]"}, xr: v2, published: "{other: o}"},
			"{details: {other: o}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {other: bw==}}}}",
		},
		"A step that says where the Secret is to be has the last word": {
			scene{steps: []string{step("a", "k-a", ""), step("b", "k-b", ", writeConnectionSecretToRef: {name: s}")}, xr: v2, observed: pods},
			"{details: {k-a: k-a, k-b: k-b}, resources: {" + a + ", " + b + ", x-connection-secret: " + secret + "metadata: {name: s}, data: {k-a: ay1h, k-b: ay1i}}}}",
		},
		"A patch of the Secret's name that yields a number leaves the name": {
			scene{steps: []string{step("a", "k", ", writeConnectionSecretToRef: {name: s, namespace: ops, patches: [{fromFieldPath: spec.port, toFieldPath: name}]}")}, xr: "spec: {port: 5, crossplane: {}}", observed: pods},
			"{results: ['Warning: writeConnectionSecretToRef.patches: name must be a string; the Secret keeps \"s\"'], details: {k: k}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: s, namespace: ops}, data: {k: aw==}}}}",
		},
		"A patch of its namespace that yields null leaves the namespace": {
			scene{steps: []string{step("a", "k", ", writeConnectionSecretToRef: {patches: [{fromFieldPath: spec.none, toFieldPath: namespace}]}")}, xr: "spec: {none: null, crossplane: {}}", observed: pods},
			"{results: ['Warning: writeConnectionSecretToRef.patches: namespace must be a string; the Secret keeps \"prod\"'], details: {k: k}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: x-connection, namespace: prod}, data: {k: aw==}}}}",
		},
		"A patch of the Secret's name that yields a text names it": {
			scene{steps: []string{step("a", "k", ", writeConnectionSecretToRef: {name: s, patches: [{fromFieldPath: spec.port, toFieldPath: name, transforms: [{type: convert, convert: {toType: string}}]}]}")}, xr: "spec: {port: 5, crossplane: {}}", observed: pods},
			"{details: {k: k}, resources: {" + a + ", x-connection-secret: " + secret + "metadata: {name: '5'}, data: {k: aw==}}}}",
		},
		"A composite of before version 2 has details and no Secret": {
			scene{steps: []string{step("a", "k-a", ""), step("b", "k-b", "")}, observed: pods, published: "{other: o}"},
			"{details: {k-a: k-a, k-b: k-b, other: o}, resources: {" + a + ", " + b + "}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, tc.scene, tc.want) })
	}
}

func TestRequired(t *testing.T) {
	const required = ", toFieldPath: data.x, policy: {fromFieldPath: Required}}"
	one := func(patch string) []string {
		return []string{"resources: [{name: r, base: {apiVersion: v1, kind: ConfigMap}, patches: [" + patch + "]}]"}
	}
	const r = "resources: {r: {apiVersion: v1, kind: ConfigMap}}"
	missing := func(kind, what string) string {
		return `'Warning: not adding new composed resource "r" to desired state because "` + kind + `" patch at index 0 has ''policy.fromFieldPath: Required'': ` + what + `'`
	}
	cases := map[string]struct {
		scene
		want string
	}{
		"A new resource whose source is missing makes the composite unready": {
			scene{steps: one("{fromFieldPath: spec.a" + required)},
			"{ready: false, results: [" + missing("FromCompositeFieldPath", "spec.a: no such field") + "]}",
		},
		"So does one that lacks a variable": {
			scene{steps: one("{type: CombineFromComposite, combine: {strategy: string, string: {fmt: '%s'}, variables: [{fromFieldPath: spec.a}]}" + required)},
			"{ready: false, results: [" + missing("CombineFromComposite", "spec.a: no such field") + "]}",
		},
		"So does one that lacks a part of the environment": {
			scene{steps: one("{type: FromEnvironmentFieldPath, fromFieldPath: a" + required)},
			"{ready: false, results: [" + missing("FromEnvironmentFieldPath", "a: no such field") + "]}",
		},
		"A later step that has everything leaves it unready": {
			scene{steps: append(one("{fromFieldPath: spec.a"+required), "resources: [{name: s, base: {apiVersion: v1, kind: ConfigMap}}]")},
			"{ready: false, resources: {s: {apiVersion: v1, kind: ConfigMap}}}",
		},
		"A resource that is there already says for itself whether it is ready": {
			scene{steps: one("{fromFieldPath: spec.a" + required), observed: "{r: {apiVersion: v1, kind: ConfigMap}}"},
			"{" + r + `, results: ['Warning: cannot render composed resource "r" "FromCompositeFieldPath" patch at index 0: ignoring ''policy.fromFieldPath: Required'' because ''to'' resource already exists: spec.a: no such field']}`,
		},
		"A source that is there says nothing of the composite": {
			scene{steps: one("{fromFieldPath: metadata.name" + required)},
			"{resources: {r: {apiVersion: v1, kind: ConfigMap, data: {x: x}}}}",
		},
		"One that isn't required doesn't either": {
			scene{steps: one("{fromFieldPath: spec.a, toFieldPath: data.x}")},
			"{" + r + "}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, tc.scene, tc.want) })
	}
}

// TestNull is about paths that go through null: what they lead to isn't there yet.
func TestNull(t *testing.T) {
	one := func(rest string) []string {
		return []string{"resources: [{name: r, base: {apiVersion: v1, kind: ConfigMap}, " + rest + "}]"}
	}
	const r = "r: {apiVersion: v1, kind: ConfigMap}"
	const nothing = "{resources: {" + r + "}}"
	const xr = "spec: {a: null, l: [null]}"
	const observed = "{r: {apiVersion: v1, kind: ConfigMap, status: null}}"
	const combined = "combine: {strategy: string, string: {fmt: '%s'}, variables: [{fromFieldPath: "
	cases := map[string]struct {
		scene
		want string
	}{
		"A patch of a field of null does nothing":        {scene{steps: one("patches: [{fromFieldPath: spec.a.b, toFieldPath: data.x}]"), xr: xr}, nothing},
		"A patch of an item of null does nothing":        {scene{steps: one("patches: [{fromFieldPath: 'spec.a[0]', toFieldPath: data.x}]"), xr: xr}, nothing},
		"A patch of a field of a null item does nothing": {scene{steps: one("patches: [{fromFieldPath: 'spec.l[0].b', toFieldPath: data.x}]"), xr: xr}, nothing},
		"A patch of null itself writes null":             {scene{steps: one("patches: [{fromFieldPath: spec.a, toFieldPath: data.x}]"), xr: xr}, "{resources: {r: {apiVersion: v1, kind: ConfigMap, data: {x: null}}}}"},
		"A required one keeps a new resource from being made": {
			scene{steps: one("patches: [{fromFieldPath: spec.a.b, toFieldPath: data.x, policy: {fromFieldPath: Required}}]"), xr: xr},
			`{ready: false, results: ['Warning: not adding new composed resource "r" to desired state because "FromCompositeFieldPath" patch at index 0 has ''policy.fromFieldPath: Required'': spec.a: is null']}`,
		},
		"A combination of a field of null does nothing":              {scene{steps: one("patches: [{type: CombineFromComposite, " + combined + "spec.a.b}]}, toFieldPath: data.x}]"), xr: xr}, nothing},
		"A patch to the composite does nothing":                      {scene{steps: one("patches: [{type: ToCompositeFieldPath, fromFieldPath: status.id, toFieldPath: status.id}]"), observed: observed}, nothing},
		"A combination for the composite does nothing":               {scene{steps: one("patches: [{type: CombineToComposite, " + combined + "status.id}]}, toFieldPath: status.id}]"), observed: observed}, nothing},
		"A patch from the environment does nothing":                  {scene{steps: one("patches: [{type: FromEnvironmentFieldPath, fromFieldPath: a.b, toFieldPath: data.x}]"), context: "{apiextensions.crossplane.io/environment: {a: null}}"}, "{environment: {a: null}, resources: {" + r + "}}"},
		"A patch to the environment does nothing":                    {scene{steps: one("patches: [{type: ToEnvironmentFieldPath, fromFieldPath: status.id, toFieldPath: id}]"), observed: observed}, nothing},
		"A patch of the environment does nothing":                    {scene{steps: []string{"environment: {patches: [{fromFieldPath: spec.a.b, toFieldPath: x}]}, resources: []"}, xr: xr}, "{}"},
		"A patch of the composite from the environment does nothing": {scene{steps: []string{"environment: {patches: [{type: ToCompositeFieldPath, fromFieldPath: a.b, toFieldPath: status.x}]}, resources: []"}, context: "{apiextensions.crossplane.io/environment: {a: null}}"}, "{environment: {a: null}}"},
		"A patch of all items of null does nothing": {
			scene{steps: []string{"resources: [{name: r, base: {apiVersion: v1, kind: Pod, spec: {l: null}}, patches: [{fromFieldPath: metadata.name, toFieldPath: 'spec.l[*].name'}]}]"}},
			"{resources: {r: {apiVersion: v1, kind: Pod, spec: {l: null}}}}",
		},
		"A check of a field of null is not passed": {
			scene{steps: one("readinessChecks: [{type: NonEmpty, fieldPath: status.id}]"), observed: observed}, nothing,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, tc.scene, tc.want) })
	}
}

func TestCombine(t *testing.T) {
	combine := func(format, to string) []string {
		return []string{"resources: [{name: r, base: {apiVersion: v1, kind: Role, spec: {l: [{}]}}, patches: [{type: CombineFromComposite, " +
			"combine: {strategy: string, string: {fmt: '" + format + "'}, variables: [{fromFieldPath: metadata.name}]}, toFieldPath: '" + to + "'}]}]"}
	}
	policy := `{"Version":"2012-10-17","Statement":[` + strings.Repeat(`{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::%[1]s/*"},`, 100) + `{}]}`
	cases := map[string]struct {
		scene
		want string
	}{
		"A policy can be as long as one is": {
			scene{steps: combine(policy, "spec.policy")},
			"{resources: {r: {apiVersion: v1, kind: Role, spec: {l: [{}], policy: '" + strings.ReplaceAll(policy, "%[1]s", "x") + "'}}}}",
		},
		"A percent sign is no verb": {
			scene{steps: combine("100%% * %s", "spec.text")},
			"{resources: {r: {apiVersion: v1, kind: Role, spec: {l: [{}], text: 100% * x}}}}",
		},
		"A combination is written to one field": {
			scene{steps: combine("%s", "spec.l[*].name")},
			`{results: ['Fatal: cannot render composed resource "r" "CombineFromComposite" patch at index 0: cannot combine to spec.l[*].name: a combination is written to one field, and [*] stands for several']}`,
		},
		"A combination that lacks a variable is written nowhere": {
			scene{steps: []string{strings.Replace(combine("%s", "spec.l[*].name")[0], "metadata.name", "spec.absent", 1)}},
			"{resources: {r: {apiVersion: v1, kind: Role, spec: {l: [{}]}}}}",
		},
		"Values that no verb takes are told as Go tells them": {
			scene{steps: []string{strings.Replace(combine("%s", "spec.text")[0], "metadata.name}", "metadata.name}, {fromFieldPath: spec.m}, {fromFieldPath: spec.f}", 1)}, xr: "spec: {m: 5, f: 0.5}"},
			"{resources: {r: {apiVersion: v1, kind: Role, spec: {l: [{}], text: 'x%!(EXTRA int64=5, float64=0.5)'}}}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, tc.scene, tc.want) })
	}
}

// TestPassedOver is about what looks wrong and is none of the function's business before it
// comes to it.
func TestPassedOver(t *testing.T) {
	resources := func(rest string) []string {
		return []string{"resources: [{name: r, base: {apiVersion: v1, kind: ConfigMap}, " + rest + "}]"}
	}
	const made = "resources: {r: {apiVersion: v1, kind: ConfigMap}}"
	const warned = "'Warning: the Function input is accepted, but: resources[0]."
	const bad = `: cannot parse path "a..b": unexpected ''.'' at position 2`
	cases := map[string]struct {
		scene
		want string
	}{
		"A bad path is none for a resource that isn't there to read from": {
			scene{steps: resources("patches: [{type: ToCompositeFieldPath, fromFieldPath: a..b, toFieldPath: status.x}]")},
			"{" + made + ", results: [" + warned + "patches[0].fromFieldPath" + bad + "']}",
		},
		"A bad path to write to is none while there is nothing to write": {
			scene{steps: resources("patches: [{fromFieldPath: spec.absent, toFieldPath: a..b}]")},
			"{" + made + ", results: [" + warned + "patches[0].toFieldPath" + bad + "']}",
		},
		"A bad path of a patch set that nothing includes is none": {
			scene{steps: []string{"patchSets: [{name: s, patches: [{fromFieldPath: a..b}]}], " + resources("patches: []")[0]}},
			"{" + made + ", results: [" + strings.Replace(warned, "resources", "patchSets", 1) + "patches[0].fromFieldPath" + bad + "']}",
		},
		"A bad path of a variable is none while another is missing": {
			scene{steps: resources("patches: [{type: CombineFromComposite, combine: {strategy: string, string: {fmt: '%s%s'}, variables: [{fromFieldPath: spec.absent}, {fromFieldPath: a..b}]}, toFieldPath: data.x}]")},
			"{" + made + ", results: [" + warned + "patches[0].combine.variables[1].fromFieldPath" + bad + "']}",
		},
		"A patch that runs with a bad path fails": {
			scene{steps: resources("patches: [{fromFieldPath: a..b, toFieldPath: data.x}]")},
			"{results: [" + warned + "patches[0].fromFieldPath" + bad + `', 'Fatal: cannot render composed resource "r" "FromCompositeFieldPath" patch at index 0` + bad + "']}",
		},
		"A readiness check with a bad path is not passed": {
			scene{steps: resources("readinessChecks: [{type: NonEmpty, fieldPath: a..b}]"), observed: "{r: {apiVersion: v1, kind: ConfigMap}}"},
			"{" + made + ", results: [" + warned + "readinessChecks[0].fieldPath" + bad + `', 'Warning: cannot check readiness of composed resource "r": cannot run readiness check at index 0` + bad + "']}",
		},
		"A connection detail with a bad path is left out": {
			scene{steps: resources("connectionDetails: [{type: FromFieldPath, name: k, fromFieldPath: a..b}]"), observed: "{r: {apiVersion: v1, kind: ConfigMap}}"},
			"{" + made + ", results: [" + warned + "connectionDetails[0].fromFieldPath" + bad + "']}",
		},
		"A patch may supply the apiVersion of a base": {
			scene{steps: []string{"resources: [{name: r, base: {kind: Database}, patches: [{fromFieldPath: spec.api, toFieldPath: apiVersion}]}]"}, xr: "spec: {api: db.example.org/v2}"},
			"{resources: {r: {apiVersion: db.example.org/v2, kind: Database}}}",
		},
		"A patch can't supply the kind of a base": {
			scene{steps: []string{"resources: [{name: r, base: {apiVersion: v1}, patches: [{fromFieldPath: spec.kind, toFieldPath: kind}]}]"}, xr: "spec: {kind: ConfigMap}"},
			"{results: ['Fatal: invalid Function input: resources[0].base.kind: is not set']}",
		},
		"A field that isn't known is refused": {
			scene{steps: resources("patchs: [], readinessChecks: [{type: None, fieldpath: x}]")},
			"{results: [\"Fatal: invalid Function input: resources[0].patchs: no such field; did you mean \\\"patches\\\"?\\nresources[0].readinessChecks[0].fieldpath: no such field; did you mean \\\"fieldPath\\\"?\"]}",
		},
		"An empty path to write to is the one to read": {
			scene{steps: resources("patches: [{fromFieldPath: spec.x, toFieldPath: ''}]"), xr: "spec: {x: 1}"},
			"{resources: {r: {apiVersion: v1, kind: ConfigMap, spec: {x: 1}}}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, tc.scene, tc.want) })
	}
}
