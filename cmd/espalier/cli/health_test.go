package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestHealthOfFiles(t *testing.T) {
	const vpc = "../../../examples/eks-with-vpc/1-vpc.yaml"
	var patch struct {
		Spec struct{ HealthCheckExprs []map[string]string }
	}
	code, out, errs := call(t.Context(), "health", "--flux", "-f", vpc, "vpc.kro.run", "resourcegraphdefinition")
	if err := yaml.UnmarshalStrict([]byte(out), &patch); err != nil || code != exitDone {
		t.Fatalf("exit code %d: %v\n%s\n%s", code, err, out, errs)
	}
	var kinds []string
	for _, check := range patch.Spec.HealthCheckExprs {
		kinds = append(kinds, check["apiVersion"]+" "+check["kind"])
		if check["current"] == "" || check["failed"] == "" || check["inProgress"] == "" {
			t.Errorf("%v", check)
		}
	}
	if got := strings.Join(kinds, ", "); got != "kro.run/v1alpha1 ResourceGraphDefinition, kro.run/v1alpha1 Vpc" {
		t.Errorf("the kinds are %s", got)
	}

	var cm struct {
		Metadata struct{ Name, Namespace string }
		Data     map[string]string
	}
	code, out, errs = call(t.Context(), "health", "--argocd", "--argocd-namespace", "cd", "-f", vpc)
	if err := yaml.Unmarshal([]byte(out), &cm); err != nil || code != exitDone {
		t.Fatalf("exit code %d: %v\n%s", code, err, errs)
	}
	for _, key := range []string{"kro.run_Vpc", "kro.run_ResourceGroup", "apiextensions.crossplane.io_CompositeResourceDefinition", "pkg.crossplane.io_Function"} {
		if cm.Data["resource.customizations.health."+key] == "" {
			t.Errorf("there is no check of %s", key)
		}
	}
	if cm.Metadata.Name != "argocd-cm" || cm.Metadata.Namespace != "cd" {
		t.Errorf("%v", cm.Metadata)
	}
}

func TestHealthLeavesOutKindsOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crd.yaml")
	text, err := os.ReadFile("../../../examples/widgets/3-widget-crd.yaml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := call(t.Context(), "health", "--flux", "-f", file); code != exitDone || strings.Contains(out, "Widget") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

func TestHealthUsage(t *testing.T) {
	for _, args := range [][]string{{"health"}, {"health", "--flux", "--argocd"}, {"health", "--flux", "-f", "../../../examples/eks-with-vpc/1-vpc.yaml", "Nothing"}} {
		if code, _, errs := call(t.Context(), args...); code != exitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// TestHealthWithoutPermissions says which permission is missing, and what needs none.
func TestHealthWithoutPermissions(t *testing.T) {
	code, _, errs := call(t.Context(), "health", "--flux", "--kubeconfig", forbiddenServer(t, nil))
	if code != exitFailed || !strings.Contains(errs, "an account that is allowed to list them, or name files with the definitions: -f FILE") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
