package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/convert"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

const convertibleApp = "testdata/convert/app"

func TestAConvertedCompositionHasTheSameResult(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t.Context(), "convert", "-f", convertibleApp, "--check", "40")
	golden.Compare(t, convertibleApp+".golden.yaml", stdout)
	if want := "the same result for 40 instances with seed 1\n"; code != exitDone || stderr != want {
		t.Errorf("code %d, and %q, want %q", code, stderr, want)
	}
}

func TestWhatAGraphDefinitionCannotSayIsListed(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t.Context(), "convert", "-f", "testdata/convert/lost")
	golden.Compare(t, "testdata/convert/lost.golden.txt", stdout+"---\n"+stderr)
	if code != exitFailed {
		t.Errorf("code %d", code)
	}
	allowed, again, warned := call(t.Context(), "convert", "-f", "testdata/convert/lost", "--allow-loss")
	if allowed != exitDone || again != stdout || !strings.Contains(stderr, warned) || warned == "" {
		t.Errorf("code %d:\n%s%s", allowed, again, warned)
	}
}

func TestWhatCannotBeConvertedIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no files":       {nil, exitUsage, "convert takes files: -f FILE"},
		"no composition": {[]string{"-f", convertibleApp + "/definition.yaml"}, exitFailed, "the files have no Composition"},
		"another name":   {[]string{"-f", convertibleApp, "--composition", "web"}, exitFailed, "the files have no Composition web"},
		"no definition":  {[]string{"-f", convertibleApp + "/composition.yaml"}, exitFailed, "no CompositeResourceDefinition of kind App of platform.example.org/v1alpha1, which Composition apps is for"},
		"several":        {[]string{"-f", convertibleApp, "-f", "testdata/convert/lost"}, exitUsage, "choose one with --composition: apps, buckets"},
		"too many":       {[]string{"-f", convertibleApp, "--check", "1000000"}, exitUsage, "--check must be from 0 to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t.Context(), append([]string{"convert"}, c.args...)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("code %d, %q, %q; want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// TestAWrongConversionIsFound changes the result of a conversion: the comparison must see each change.
func TestAWrongConversionIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		want    []string
	}{
		"values": {
			[]string{`v * 512`, `v * 513`, `${mainMachine.?status.?nodes}`, `${mainMachine.?status.?nodes.optMap(n, n + 1)}`, `"app-"`, `"apps-"`},
			[]string{"mainMachine", "settings", "the status"},
		},
		"a stricter rule": {[]string{`maxLength=20`, `maxLength=3`}, []string{"the instance"}},
		"a looser rule":   {[]string{`maxLength=20`, `maxLength=60`}, []string{"the instance"}},
		"a failure":       {[]string{`schema.spec.owner.upperAscii()`, `schema.spec.owner.substring(30)`}, []string{"the reconciliation"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := map[string]bool{}
			for _, d := range compareChanged(t, c.changes) {
				found[d.What] = true
			}
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) {
				t.Errorf("%v differ, want %v", got, c.want)
			}
		})
	}
}

// compareChanged replaces texts in the result of a conversion, and compares. Each text is followed by what
// replaces it.
func compareChanged(t *testing.T, changes []string) []server.ConversionDifference {
	t.Helper()
	cmd := newConvert()
	objects, err := appliedObjects(cmd, []string{convertibleApp})
	if err != nil {
		t.Fatal(err)
	}
	chosen, others, err := (&convertFlags{}).choose(objects)
	if err != nil {
		t.Fatal(err)
	}
	result, err := convert.Graph(chosen.definition, chosen.composition)
	if err != nil {
		t.Fatal(err)
	}
	before := golden.YAML(t, result.Definition)
	for pair := range slices.Chunk(changes, 2) {
		result.Definition = replaceTexts(result.Definition, func(text string) string { return strings.ReplaceAll(text, pair[0], pair[1]) }).(map[string]any)
		after := golden.YAML(t, result.Definition)
		if before == after {
			t.Fatalf("there is no %q in\n%s", pair[0], before)
		}
		before = after
	}
	found, err := server.CompareConversion(t.Context(), server.ManagerOptions{Options: manager.Options{Name: programName}},
		server.ConversionInput{Composition: chosen.objects, Others: others, Converted: result},
		server.Drawing{Namespace: "default", Instances: 15, Seed: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return found.Differences
}

// replaceTexts applies a function to the texts of a value.
func replaceTexts(value any, replace func(string) string) any {
	switch v := value.(type) {
	case string:
		return replace(v)
	case map[string]any:
		for key, item := range v {
			v[key] = replaceTexts(item, replace)
		}
	case []any:
		for i, item := range v {
			v[i] = replaceTexts(item, replace)
		}
	}
	return value
}

// TestAConvertedExampleHasTheSameResult compares with the kinds that the example composes: their statuses say which
// generation they are of. Without these kinds, both fail.
func TestAConvertedExampleHasTheSameResult(t *testing.T) {
	t.Parallel()
	args := []string{"convert", "-f", "../../../examples/store", "--check", "3"}
	code, _, stderr := call(t.Context(), append(args, "-f", "../../../providers/sandbox/v1alpha1/crds")...)
	if want := "the same result for 3 instances with seed 1\n"; code != exitDone || stderr != want {
		t.Errorf("code %d, and %q, want %q", code, stderr, want)
	}
	code, _, stderr = call(t.Context(), args...)
	if !strings.Contains(stderr, "nothing was compared: 3 instances with seed 1, of which 3 fail with both") || code != exitFailed {
		t.Errorf("code %d, and %q", code, stderr)
	}
}

// TestCopiedMetadataIsThatOfTheUser has a composition that copies all labels and annotations of the composite: an instance of a graph
// definition has some of the controllers' own, which its children may not have.
func TestCopiedMetadataIsThatOfTheUser(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t.Context(), "convert", "-f", "testdata/convert/metadata", "--check", "40")
	golden.Compare(t, "testdata/convert/metadata.golden.yaml", stdout)
	if want := "the same result for 40 instances with seed 1\n"; code != exitDone || stderr != want {
		t.Errorf("code %d, and %q, want %q", code, stderr, want)
	}
}
