package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestARecordExplainsACluster gathers a cluster in which a deletion is blocked three layers below, and reads
// the archive in its place.
func TestARecordExplainsACluster(t *testing.T) {
	l := newLayers(t)
	l.nest(t)
	definitions := schema.GroupVersionKind{Group: crdResource.Group, Version: "v1", Kind: "CustomResourceDefinition"}
	l.Patch(t, definitions, "", "layers."+l.kind.Group, `{"metadata":{"labels":{"kro.run/owned":"true"}}}`)
	archive := filepath.Join(t.TempDir(), "incident.tar.gz")
	code, _, errs := call(t.Context(), "gather", "-n", l.namespace, "-o", archive, "--kubeconfig", l.file)
	if code != exitDone || !strings.Contains(errs, "wrote ") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v", info, err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"why"}, exitNotReady, "/data is not gone: held by finalizer example.com/guard, added by ops"},
		{[]string{"tree"}, exitDone, "data    False  Finalizer"},
		{[]string{"blockers"}, exitBlocked, "example.com/guard"},
	} {
		arguments := append(tc.args, "layer."+l.kind.Group, "top", "-n", l.namespace)
		code, out, errs := call(t.Context(), append(arguments, "--from", archive)...)
		if code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit code %d: %s\n%s", tc.args, code, errs, out)
		}
		if live, is, _ := call(t.Context(), append(arguments, "--kubeconfig", l.file)...); live != code || tc.args[0] == "blockers" && is != out {
			t.Errorf("%v: the cluster itself gives %d:\n%s\ninstead of %d:\n%s", tc.args, live, is, code, out)
		}
	}
}

// TestARecordSaysWhatItLacks reads a record that was written without some permissions: what is missing in it may exist.
func TestARecordSaysWhatItLacks(t *testing.T) {
	dir := t.TempDir()
	record, err := os.ReadFile("testdata/why/record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Repeat("list ConfigMaps: forbidden\n", maxPrintedNotes) + "list Secrets: forbidden\n"
	for name, text := range map[string]string{"record.yaml": string(record), "notes.txt": notes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errs := call(t.Context(), "tree", "box", "one", "--from", dir)
	if code != exitDone || strings.Count(errs, "lacks what could not be read when it was written: list ConfigMaps: forbidden") != maxPrintedNotes || !strings.Contains(errs, "has 1 more note") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no file":           {[]string{"why", "app", "web", "--from", filepath.Join(empty, "none")}, "no such file"},
		"no objects":        {[]string{"tree", "app", "web", "--from", empty}, "has no objects"},
		"a cluster as well": {[]string{"why", "app", "web", "--from", empty, "--kubeconfig", "x"}, "from kubeconfig"},
	} {
		if code, _, errs := call(t.Context(), tc.args...); code == exitDone || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}
