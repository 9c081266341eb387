package imageconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
)

// parse reads ImageConfigs in YAML, without apiVersion and kind.
func parse(t *testing.T, documents ...string) (out []Config) {
	t.Helper()
	for _, text := range documents {
		var c struct {
			Metadata struct{ Name string }
			Spec     v1beta1.ImageConfigSpec
		}
		if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, Config{c.Metadata.Name, c.Spec})
	}
	return out
}

func TestResolve(t *testing.T) {
	const image = "registry.example.org/team/network:v1"
	rewrite := "{metadata: {name: mirror}, spec: {matchImages: [{prefix: registry.example.org/}], rewriteImage: {prefix: mirror.example.net/}}}"
	cases := map[string]struct {
		configs []string
		want    Resolved
		problem string
	}{
		"no ImageConfig":           {nil, Resolved{Image: image}, ""},
		"one for another registry": {[]string{"{metadata: {name: a}, spec: {matchImages: [{prefix: other.example.org}], rewriteImage: {prefix: x.example.org}}}"}, Resolved{Image: image}, ""},
		"a rewrite":                {[]string{rewrite}, Resolved{Image: "mirror.example.net/team/network:v1", Applied: []v1.ImageConfigRef{{Name: "mirror", Reason: ReasonRewrite}}}, ""},
		"the secret is that of the rewritten image": {
			[]string{
				rewrite, "{metadata: {name: before}, spec: {matchImages: [{prefix: registry.example.org}], registry: {authentication: {pullSecretRef: {name: old}}}}}",
				"{metadata: {name: after}, spec: {matchImages: [{prefix: mirror.example.net}], registry: {authentication: {pullSecretRef: {name: new}}}}}",
			},
			Resolved{Image: "mirror.example.net/team/network:v1", PullSecret: "new", Applied: []v1.ImageConfigRef{{Name: "mirror", Reason: ReasonRewrite}, {Name: "after", Reason: ReasonSetPullSecret}}}, "",
		},
		"the longest prefix, also within a name": {
			[]string{
				"{metadata: {name: short}, spec: {matchImages: [{prefix: registry.example.org/team}], runtime: {configRef: {name: short}}}}",
				"{metadata: {name: long}, spec: {matchImages: [{prefix: registry.example.org}, {prefix: registry.example.org/team/net}], runtime: {configRef: {name: long}}}}",
			},
			Resolved{Image: image, Runtime: &v1.RuntimeConfigReference{Name: "long"}, Applied: []v1.ImageConfigRef{{Name: "long", Reason: ReasonRuntime}}}, "",
		},
		"the first by name of equal ones": {
			[]string{
				"{metadata: {name: b}, spec: {matchImages: [{prefix: registry.}], runtime: {configRef: {name: b}}}}",
				"{metadata: {name: a}, spec: {matchImages: [{prefix: registry.}], runtime: {configRef: {name: a}}}}",
			},
			Resolved{Image: image, Runtime: &v1.RuntimeConfigReference{Name: "a"}, Applied: []v1.ImageConfigRef{{Name: "a", Reason: ReasonRuntime}}}, "",
		},
		"each purpose by itself": {
			[]string{
				"{metadata: {name: verify}, spec: {matchImages: [{prefix: registry.}], verification: {provider: Cosign, cosign: {authorities: [{name: us}]}}}}",
				"{metadata: {name: run}, spec: {matchImages: [{prefix: registry.example.org}], runtime: {configRef: {name: small}}}}",
			},
			Resolved{
				Image: image, Runtime: &v1.RuntimeConfigReference{Name: "small"},
				Verification: &v1beta1.ImageVerification{Provider: "Cosign", Cosign: &v1beta1.CosignVerification{Authorities: []v1beta1.CosignAuthority{{Name: "us"}}}},
				Applied:      []v1.ImageConfigRef{{Name: "verify", Reason: ReasonVerify}, {Name: "run", Reason: ReasonRuntime}},
			}, "",
		},
		"an empty prefix matches nothing": {[]string{"{metadata: {name: a}, spec: {matchImages: [{prefix: ''}], runtime: {configRef: {name: a}}}}"}, Resolved{Image: image}, ""},
		"a rewrite to nothing":            {[]string{"{metadata: {name: a}, spec: {matchImages: [{prefix: registry.}], rewriteImage: {prefix: ''}}}"}, Resolved{Image: image}, "ImageConfig a: spec.rewriteImage.prefix is empty"},
		"a verification of nothing":       {[]string{"{metadata: {name: a}, spec: {matchImages: [{prefix: registry.}], verification: {provider: Cosign}}}"}, Resolved{Image: image, Verification: &v1beta1.ImageVerification{Provider: "Cosign"}}, "ImageConfig a: spec.verification.cosign is missing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(image, parse(t, tc.configs...))
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}
