package object_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestGroupsOfDefinitions(t *testing.T) {
	for group, refused := range map[string]bool{
		"kro.run": false, "platform.example.com": false, "example.x-k8s.io": false, "my-kubernetes.io": false, "k8s.io.example.com": false,
		"":                          true,
		"apps":                      true,
		"platform":                  true,
		"k8s.io":                    true,
		"kubernetes.io":             true,
		"rbac.authorization.k8s.io": true,
		"tomorrow.k8s.io":           true,
		"a.kubernetes.io":           true,
		"espalier.dev":              true,
		"internal.kro.run":          true,
		"pkg.crossplane.io":         true,
		"s3.aws.espalier.dev":       true,
	} {
		if problem := object.GroupProblem(group); (problem != "") != refused {
			t.Errorf("%q: got %q", group, problem)
		}
	}
}

func TestAnnotationsOfKinds(t *testing.T) {
	for key, refused := range map[string]bool{
		"note": false, "example.com/note": false, "argocd.argoproj.io/sync-options": false, "helm.sh/resource-policy": false,
		"kubernetes.io.example.com/note": false, "x-k8s.io/note": false, "kro.running/note": false,
		"api-approved.kubernetes.io":                       true,
		"kubernetes.io/description":                        true,
		"k8s.io/note":                                      true,
		"kubectl.kubernetes.io/last-applied-configuration": true,
		"autoscaling.alpha.k8s.io/note":                    true,
		"kro.run/note":                                     true,
		"internal.kro.run/note":                            true,
		"espalier.dev/definition":                          true,
		"crossplane.io/external-name":                      true,
	} {
		if problem := object.KindAnnotationProblem(key); (problem != "") != refused {
			t.Errorf("%s: got %q", key, problem)
		}
	}
}
