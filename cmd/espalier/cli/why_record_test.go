package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestWhyExplainsARecord explains objects and fields of a record, at 80 and 120 columns. The JSON of the first field is expected as well.
func TestWhyExplainsARecord(t *testing.T) {
	config, _, err := recordedConfig("testdata/why/record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := reader.New(config)
	if err != nil {
		t.Fatal(err)
	}
	files, err := readFiles(newWhy(), []string{"testdata/why/stores.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	golden.Run(t, "testdata/why/*.txtar", func(t *testing.T, a *golden.Archive) {
		now, err := time.Parse(time.RFC3339, strings.TrimSpace(a.Input["now"]))
		if err != nil {
			t.Fatal(err)
		}
		hasJSON := false
		for line := range strings.Lines(a.Input["cases"]) {
			words := strings.Fields(line)
			target, err := cluster.Kinds.Target(words[1], "default", words[2])
			if err != nil {
				t.Fatal(err)
			}
			shown := instance{cluster, target}
			var text func(width int) string
			var raw []byte
			if len(words) == 3 {
				state, err := follow.Gather(t.Context(), cluster, target)
				if err != nil {
					t.Fatal(err)
				}
				e := shown.explainTree(t.Context(), state, now)
				if e.Revision, err = shown.explainRevision(t.Context(), state); err != nil {
					t.Error(err)
				}
				text, raw = func(width int) string { return e.Text(now, width) }, e.JSON()
			} else {
				o, err := cluster.ResourceClient(target).Get(t.Context(), words[2], metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				e, isComposed, err := shown.explainComposedField(t.Context(), o, object.Path(words[3]), files)
				if !isComposed || err != nil {
					t.Fatalf("%s: %v, %v", line, isComposed, err)
				}
				text, raw = func(width int) string { return e.Text(now, width) }, e.JSON()
				if !hasJSON {
					a.Record("json", string(raw))
				}
				hasJSON = true
			}
			for _, width := range []int{80, 120} {
				a.Record(fmt.Sprintf("%s-%d", words[0], width), text(width))
			}
			if strings.Contains(string(raw)+text(0), "hunter22") {
				t.Errorf("%s has data of a Secret", line)
			}
		}
	})
}

// TestWhyPrintsARecord has the same by the command, whose times are those of now.
func TestWhyPrintsARecord(t *testing.T) {
	for name, tc := range map[string]struct {
		args string
		code int
		want string
	}{
		"a contested field":           {"box one", exitNotReady, "data.value of ConfigMap default/one-content is written again and again"},
		"a revision":                  {"store shop", exitDone, "Revision 2 of Composition stores"},
		"a revision, as JSON":         {"store shop -o json", exitDone, `"number": 2`},
		"a field of a composition":    {"cm shop-a097743d32c1 data.region -f testdata/why/stores.yaml", exitDone, "stores.yaml:37:11: spec.pipeline[1].input.resources[0].patches[1]"},
		"a field of it, as YAML":      {"cm shop-a097743d32c1 data.region -o yaml", exitDone, "place: spec.pipeline[1].input.resources[0].patches[1]"},
		"a field of a composite":      {"store shop spec.region", exitDone, "which no step of a pipeline sets"},
		"a field of a graph instance": {"cm one-content data.value", exitDone, "spec.resources[0].template.data.value"},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"why"}, strings.Fields(tc.args)...)
			code, out, errs := call(t.Context(), append(arguments, "-n", "default", "--from", "testdata/why/record.yaml")...)
			if code != tc.code || errs != "" || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}

// TestARecordControlsNoTerminal reads a record that no API server would have accepted.
func TestARecordControlsNoTerminal(t *testing.T) {
	raw, err := os.ReadFile("testdata/why/record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record.yaml")
	text := strings.ReplaceAll(string(raw), "resource-graph-definition-name: box}", `resource-graph-definition-name: "box\e[2J"}`)
	if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := call(t.Context(), "why", "box", "one", "-n", "default", "--from", record)
	if !strings.Contains(errs, `its definition box\x1b[2J cannot be read`) || strings.Contains(out+errs, "\x1b") {
		t.Errorf("%q\n%q", out, errs)
	}
}

func TestAKindOfTwoGroupsIsNoted(t *testing.T) {
	for name, tc := range map[string]struct{ args, notes string }{
		"why":          {"why role reader", "note: role is taken for Role.rbac.authorization.k8s.io; it could also be role.security.example.org\n"},
		"a field":      {"why role reader metadata.name", "note: role is taken for Role.rbac.authorization.k8s.io; it could also be role.security.example.org\n"},
		"tree":         {"tree roles", "note: roles is taken for Role.rbac.authorization.k8s.io; it could also be roles.security.example.org\n"},
		"blockers":     {"blockers role/reader", "note: role is taken for Role.rbac.authorization.k8s.io; it could also be role.security.example.org\n"},
		"with a group": {"why role.security.example.org reader", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append(strings.Fields(tc.args), "-n", "default", "--from", "testdata/why/ambiguous.yaml")...)
			if code != exitDone || errs != tc.notes {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
