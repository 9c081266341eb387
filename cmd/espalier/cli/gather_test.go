package cli

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
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
	definitions := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
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

// forbiddenServer is an API server with kinds that nobody may list, and the kubeconfig for it. It answers the paths that are readable.
func forbiddenServer(t *testing.T, readable map[string]string) (kubeconfig string) {
	t.Helper()
	answers := map[string]string{
		"/api":             `{"kind":"APIVersions","versions":[]}`,
		"/apis":            `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kro.run","versions":[{"groupVersion":"kro.run/v1","version":"v1"}],"preferredVersion":{"groupVersion":"kro.run/v1","version":"v1"}}]}`,
		"/apis/kro.run/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kro.run/v1","resources":[{"name":"shops","singularName":"shop","namespaced":true,"kind":"Shop","verbs":["list"]}]}`,
	}
	maps.Copy(answers, readable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"refused: no"}`
		}
		_, _ = io.WriteString(w, text) // the test has ended
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: " + server.URL + "}}]}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestGatherWithoutPermissions: an archive without objects explains nothing, and does not replace one that does.
func TestGatherWithoutPermissions(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "incident.tar.gz")
	if err := os.WriteFile(archive, []byte("that of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := forbiddenServer(t, nil)
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"all namespaces":  {nil, []string{"note: you are not allowed to list shops.kro.run in all namespaces\n", "no archive is written", "--namespace"}},
		"one namespace":   {[]string{"-n", "team-a"}, []string{"note: you are not allowed to list shops.kro.run in namespace team-a\n", "no archive is written"}},
		"standard output": {[]string{"-o", "-"}, []string{"no archive is written"}},
	} {
		code, out, errs := call(t.Context(), append([]string{"gather", "--kubeconfig", kubeconfig, "-o", archive}, tc.args...)...)
		if code != exitFailed || out != "" {
			t.Errorf("%s: exit code %d: %q", name, code, out)
		}
		for _, want := range tc.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q: %s", name, want, errs)
			}
		}
	}
	if kept, err := os.ReadFile(archive); err != nil || string(kept) != "that of yesterday" {
		t.Errorf("the archive is %q, %v", kept, err)
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
