package versions

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAConvertedVersionIsScaled sets the replicas with kubectl scale in a version where they are another field.
func TestAConvertedVersionIsScaled(t *testing.T) {
	w := newProgram(t)
	w.put(t, strings.NewReplacer("spec: {replicas: integer | default=1,", "status: {replicas: '${schema.spec.replicas}'}\n    spec: {replicas: integer | default=1 scale=true,").Replace(definition(`
    versions:
      - name: v1alpha1
        spec: {count: integer | default=1 scale=true, image: string | default=none, labels: "map[string]string"}
        conversion:
          to: {spec: {replicas: '${self.spec.count}'}}
          from: {spec: {count: '${self.spec.replicas}'}}
      - name: v1alpha2
        spec: {size: integer | default=1, labels: "map[string]string"}
        conversion:
          to: {spec: {replicas: '${self.spec.size}'}}
          from: {spec: {size: '${self.spec.replicas}'}}
`)))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, "\napiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {count: 2}\n")
	w.awaitData(t, "a", map[string]string{"replicas": "2"})
	kubeconfig := testkit.Kubeconfig(t, w.config)
	scale := func(version, replicas string) error {
		cmd := exec.CommandContext(t.Context(), testkit.Kubectl(t), "scale", "apps."+version+"."+w.group, "a", "--namespace", w.ns, "--replicas", replicas, "--kubeconfig", kubeconfig)
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %s", cmd, out)
		return err
	}
	for version, replicas := range map[string]string{"v1": "5", "v1alpha1": "7"} {
		noError(t, scale(version, replicas))
		w.awaitData(t, "a", map[string]string{"replicas": replicas})
	}
	if err := scale("v1alpha2", "3"); err == nil {
		t.Error("a version without the marker is scaled")
	}
}
