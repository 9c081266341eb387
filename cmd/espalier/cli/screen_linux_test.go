package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// recordedTree prints a tree with a row that is not ready.
var recordedTree = []string{"tree", "box", "one", "-n", "default", "--from", "testdata/why/record.yaml"}

// escape matches what controls a terminal, and colour what sets a colour.
var (
	escape = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
	colour = regexp.MustCompile(`\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]+)*m`)
)

// TestColoursAreForTerminals has colours on a terminal that has them, unless the user wants none, and none elsewhere.
func TestColoursAreForTerminals(t *testing.T) {
	for name, tc := range map[string]struct {
		environment           map[string]string
		hasColours, hasStyles bool
	}{
		"a terminal":                  {map[string]string{"TERM": "xterm-256color"}, true, true},
		"an empty NO_COLOR":           {map[string]string{"TERM": "xterm-256color", "NO_COLOR": ""}, true, true},
		"NO_COLOR":                    {map[string]string{"TERM": "xterm-256color", "NO_COLOR": "1"}, false, true},
		"any other value of NO_COLOR": {map[string]string{"TERM": "xterm-256color", "NO_COLOR": "please"}, false, true},
		"a dumb terminal":             {map[string]string{"TERM": "dumb"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "TMUX", "STY"} {
				t.Setenv(variable, "")
			}
			for variable, value := range tc.environment {
				t.Setenv(variable, value)
			}
			code, text := onTerminal(t, 80, recordedTree...)
			if code != exitDone || !strings.Contains(escape.ReplaceAllString(text, ""), "one-content") {
				t.Fatalf("exit code %d: %s", code, text)
			}
			if colour.MatchString(text) != tc.hasColours || strings.Contains(text, "\x1b") != tc.hasStyles {
				t.Errorf("it prints %q", text)
			}
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		t.Setenv("TERM", "xterm-256color")
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		read := make(chan string, 1)
		go func() { read <- readAll(reader) }()
		code := Main(t.Context(), recordedTree, writer, writer)
		_ = writer.Close()
		if text := <-read; code != exitDone || !strings.Contains(text, "one-content") || strings.Contains(text, "\x1b") {
			t.Errorf("exit code %d: %q", code, text)
		}
	})
}

// TestHelpFitsTheTerminal prints the help of every verb on terminals of 80 and 120 columns: all of its words are there.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	var check func(cmd *cobra.Command, path []string)
	check = func(cmd *cobra.Command, path []string) {
		args := append([]string{"help"}, path...)
		_, plain, _ := call(t.Context(), args...)
		for _, width := range []int{80, 120} {
			_, text := onTerminal(t, width, args...)
			if diff := cmp.Diff(strings.Fields(plain), strings.Fields(text)); diff != "" {
				t.Errorf("%v, -elsewhere +on a terminal:\n%s", args, diff)
			}
			golden.CheckWidth(t, fmt.Sprint(args, " on ", width, " columns"), text, width)
		}
		for _, below := range cmd.Commands() {
			check(below, append(slices.Clip(path), below.Name()))
		}
	}
	check(newRoot(), nil)
}

// TestVerbsFitTheirTerminal runs verbs on terminals of 80 and 120 columns.
func TestVerbsFitTheirTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	broken := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(broken, []byte(brokenDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	from := []string{"-n", "default", "--from", "testdata/why/record.yaml"}
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"tree":           {recordedTree, "one-content"},
		"why":            {append([]string{"why", "box", "one"}, from...), "is written again and again"},
		"why of a field": {append([]string{"why", "cm", "one-content", "data.value"}, from...), "spec.resources[0].template.data.value"},
		"blockers":       {append([]string{"blockers", "box", "one"}, from...), "is not being deleted"},
		"validate":       {[]string{"validate", "-f", broken}, "undefined field"},
		"aws types":      {[]string{"aws", "types", "AWS::EC2::VPC*"}, "AWS::EC2::VPCPeeringConnection"},
		"an error":       {[]string{"delete", "box", "one", "--kubeconfig", broken + " does not exist, and its name has so many words that it is longer than any line"}, "longer than any line"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{80, 120} {
				_, text := onTerminal(t, width, tc.args...)
				text = escape.ReplaceAllString(text, "")
				if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, tc.says) {
					t.Errorf("it does not say %q:\n%s", tc.says, text)
				}
				golden.CheckWidth(t, fmt.Sprintf("%s on %d columns", name, width), text, width)
			}
		})
	}
}
