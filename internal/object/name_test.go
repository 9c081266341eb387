package object_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestNameRules(t *testing.T) {
	const segment, subdomain, label = object.PathSegment, object.Subdomain, object.Label
	cases := map[string]struct {
		reason string
		name   string
		taken  []object.NameRule
	}{
		"Nothing":           {"an object is found by its name", "", nil},
		"A word":            {"it is fine everywhere", "web-1", []object.NameRule{segment, subdomain, label}},
		"Dots":              {"a label has none", "web.prod", []object.NameRule{segment, subdomain}},
		"Upper case":        {"roles may be called so", "Web", []object.NameRule{segment}},
		"A colon":           {"so are roles of the system", "system:node", []object.NameRule{segment}},
		"A slash":           {"it ends the segment of a path", "a/b", nil},
		"The parent folder": {"it leads elsewhere", "..", nil},
		"64 letters":        {"a label has 63", strings.Repeat("a", 64), []object.NameRule{segment, subdomain}},
		"254 letters":       {"a subdomain has 253", strings.Repeat("a", 254), []object.NameRule{segment}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var taken []object.NameRule
			for _, rule := range []object.NameRule{segment, subdomain, label} {
				if why := rule.Check(tc.name); why == "" {
					taken = append(taken, rule)
				} else if tc.name != "" && len(tc.name) > 2 && strings.Contains(why, tc.name) {
					t.Errorf("the reason quotes the name, which may be a secret: %s", why)
				}
			}
			if len(taken) != len(tc.taken) {
				t.Errorf("%s: %v take it, want %v", tc.reason, taken, tc.taken)
			}
		})
	}
}

func TestNamesOfBuiltInKinds(t *testing.T) {
	for gk, want := range map[schema.GroupKind]object.NameRule{
		{Kind: "ConfigMap"}:                                         object.Subdomain,
		{Kind: "Namespace"}:                                         object.Label,
		{Kind: "Service"}:                                           object.Label,
		{Group: "apps", Kind: "Deployment"}:                         object.Subdomain,
		{Group: "networking.k8s.io", Kind: "Ingress"}:               object.Subdomain,
		{Group: "networking.k8s.io", Kind: "IPAddress"}:             object.PathSegment,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:   object.PathSegment,
		{Group: "serving.knative.dev", Kind: "Service"}:             object.PathSegment,
		{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:  object.PathSegment,
		{Group: "policy", Kind: "PodDisruptionBudget"}:              object.PathSegment,
		{Group: "a.group.of.tomorrow.k8s.io", Kind: "SomethingNew"}: object.PathSegment,
	} {
		if got := object.BuiltInNameRule(gk); got != want {
			t.Errorf("%s: got %d, want %d", gk, got, want)
		}
	}
}

func TestNamesOfKinds(t *testing.T) {
	for text, valid := range map[string]bool{
		"v1": true, "apps/v1": true, "ec2.aws.upbound.io/v1beta1": true, "a/v1": true,
		"": false, "/v1": false, "apps/": false, "a/b/c": false, "Apps/v1": false, "apps/V1": false, "1": false, "apps/v 1": false,
	} {
		if why := object.CheckAPIVersion(text); (why == "") != valid {
			t.Errorf("apiVersion %q: %q", text, why)
		}
	}
	for text, valid := range map[string]bool{
		"ConfigMap": true, "AllowList": true, "VPC": true, "S3": true, "My-Kind": true,
		"": false, "Config Map": false, "config/map": false, "3S": false, "Kind-": false, "A.B": false,
	} {
		if why := object.CheckKind(text); (why == "") != valid {
			t.Errorf("kind %q: %q", text, why)
		}
	}
}
