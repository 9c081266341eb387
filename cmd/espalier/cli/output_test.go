package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDataArePrintedInThreeFormats checks the flag of every command that prints data.
func TestDataArePrintedInThreeFormats(t *testing.T) {
	t.Parallel()
	// Commands whose output is a file or a manifest have formats of their own.
	others := map[string]bool{"render": true, "graph": true, "export": true, "gather": true, "update": true}
	checked := 0
	for _, cmd := range allCommands(newRoot()) {
		flag := cmd.Flags().Lookup("output")
		if flag == nil || others[cmd.Name()] {
			continue
		}
		checked++
		if flag.Value.Type() != "format" || flag.DefValue != "table" || !strings.Contains(flag.Usage, "table, json") || !strings.Contains(flag.Usage, "yaml") || flag.Shorthand != "o" {
			t.Errorf("%s has another --output: %s, %q", cmd.CommandPath(), flag.Value.Type(), flag.Usage)
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		code, out, errs := call(t.Context(), append(path, "-o", "xml")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, "must be one of table, json, yaml") {
			t.Errorf("%s -o xml: code %d, %q, %q", cmd.CommandPath(), code, out, errs)
		}
		code, out, _ = call(t.Context(), append(append([]string{"__complete"}, path...), "--output", "")...)
		if code != exitDone || !strings.HasPrefix(out, "table\njson\nyaml\n") {
			t.Errorf("%s completes --output as %q", cmd.CommandPath(), out)
		}
	}
	if checked < 9 {
		t.Errorf("only %d commands have the flag", checked)
	}
}

func allCommands(of *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{of}
	for _, cmd := range of.Commands() {
		out = append(out, allCommands(cmd)...)
	}
	return out
}

func TestDocumentsFollowEachOther(t *testing.T) {
	t.Parallel()
	for format, want := range map[outputFlag]string{
		jsonOutput: `{"a":"<1>"}` + "\n" + `{"a":"2"}` + "\n",
		yamlOutput: "---\na: <1>\n---\na: \"2\"\n",
	} {
		var text bytes.Buffer
		out := documents{to: &text, format: format}
		for _, value := range []string{"<1>", "<1>", "2"} {
			if err := out.write(map[string]string{"a": value}); err != nil {
				t.Fatal(err)
			}
		}
		if text.String() != want {
			t.Errorf("%s: %q, want %q", format, text.String(), want)
		}
	}
}

// fullDisk accepts so many bytes.
type fullDisk struct{ left int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(text []byte) (int, error) {
	if len(text) > d.left {
		return 0, errFull
	}
	d.left -= len(text)
	return len(text), nil
}

// TestAnIncompleteOutputIsAFailure runs commands whose output goes to a full disk.
func TestAnIncompleteOutputIsAFailure(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"test ../../../examples/tested",
		"rbac --controllers --serviceaccount espalier-system:espalier",
		"schema WebApp -f ../../../examples/tested/webapp.yaml",
		"install --image example.org/espalier",
		"version",
		"--help",
	} {
		var errs bytes.Buffer
		if code := Main(t.Context(), strings.Fields(line), &fullDisk{left: 3}, &errs); code != exitFailed || !strings.Contains(errs.String(), errFull.Error()) {
			t.Errorf("%s: code %d, %q", line, code, errs.String())
		}
	}
}

// TestLibrariesDoNotLogWithoutAnAPIServer checks that the error of a command is all that it prints.
func TestLibrariesDoNotLogWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const nowhere = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]}`
	archive := filepath.Join(t.TempDir(), "archive")
	for path, text := range map[string]string{kubeconfig: nowhere, archive: "{kind: Export, format: 2, id: a}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"why vpc/demo", "tree vpc/demo", "export", "import --dry-run " + archive, "import --abort " + archive, "rollback vpc", "gather", "takeover --plan", "uninstall", "rbac vpc", "schema Vpc"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append(strings.Fields(line), "--kubeconfig", kubeconfig)...) //nolint:gosec // the test program itself
		cmd.Args[0], cmd.Dir = asProgram, t.TempDir()
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Contains(string(out), "UnhandledError") || strings.Contains(string(out), ".go:") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}
