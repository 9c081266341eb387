package runtime_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestObjects renders the runtime of each archive: a program, and a configuration.
func TestObjects(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		p := runtime.Program{
			Package: "x", PackageUID: "package-uid", Revision: "x-0123456789ab", RevisionUID: "revision-uid", Namespace: "espalier-system",
			Image: "registry.example.org/org/x@sha256:0", PullPolicy: corev1.PullIfNotPresent, ServerSecret: "x-tls-server", Certificates: "digest",
		}
		if err := yaml.UnmarshalStrict([]byte(a.Input["program.yaml"]), &p); err != nil {
			t.Fatal(err)
		}
		var config v1beta1.DeploymentRuntimeConfig
		if err := yaml.UnmarshalStrict([]byte(a.Input["config.yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		p.Config = config.Spec
		var all []string
		for _, o := range []*unstructured.Unstructured{p.Service(), p.ServiceAccount(), p.Deployment()} {
			if o == nil {
				continue
			}
			o.SetAnnotations(without(o.GetAnnotations(), "espalier.dev/applied"))
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		a.Record("objects.yaml", strings.Join(all, "---\n"))
		a.Record("endpoint", p.Endpoint()+" "+strings.Join(p.Hosts(), " "))
	})
}

func without(m map[string]string, key string) map[string]string {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
