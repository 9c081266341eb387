package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withoutCluster marks the commands in the table that TestDocumentedCommandsWithoutACluster runs.
const withoutCluster = "offline"

// TestDocumentedCommandsAreRun checks the table that says of each documented command which test runs it, so that none is
// documented without having been run. A test that runs all commands of a page is followed by the page.
func TestDocumentedCommandsAreRun(t *testing.T) {
	t.Parallel()
	const table = documentedFiles + "/runs.txt"
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	runs, last := map[string]string{}, ""
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		command, by, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found || command <= last {
			t.Errorf("%s: %q is not a command and what runs it, in order", table, command)
		}
		runs[command], last = by, command
	}
	pages := map[string][]string{}
	for _, d := range documentedCommands(t) {
		pages[d.text] = append(pages[d.text], d.where)
		if runs[d.text] == "" {
			t.Errorf("%s: %s does not say what runs: espalier %s", d.where, table, d.text)
		}
	}
	sources := map[string]testSource{}
	for _, command := range slices.Sorted(maps.Keys(runs)) {
		by := runs[command]
		if pages[command] == nil {
			t.Errorf("%s: no page and no help text has: espalier %s", table, command)
			continue
		}
		if _, isOffline := outcomes[command]; isOffline != (by == withoutCluster) {
			t.Errorf("%s: %s is in the outcomes: %t", table, command, isOffline)
		}
		if by == withoutCluster {
			continue
		}
		folder, test, _ := strings.Cut(by, " ")
		test, page, _ := strings.Cut(test, " ")
		source, read := sources[folder]
		if !read {
			source = testSourceOf(t, folder)
			sources[folder] = source
		}
		if !source.tests[test] {
			t.Errorf("%s: %s has no %s, which is said to run: espalier %s", table, folder, test, command)
		} else if of := filepath.Base(page); page != "" && (!source.readsPage(page) || !slices.Contains(pages[command], of)) {
			t.Errorf("%s: %s does not read %s, or that does not have: espalier %s", table, folder, page, command)
		} else if page == "" && !source.runs(command) {
			t.Errorf("%s: %s does not run: espalier %s", table, folder, command)
		}
	}
	for command := range outcomes {
		if runs[command] == "" {
			t.Errorf("%s does not have: espalier %s", table, command)
		}
	}
}

// testSource is what the tests of a package consist of.
type testSource struct {
	tests map[string]bool
	// texts are its strings, and calls the strings among the arguments of each call, or in each literal of a list.
	texts []string
	calls [][]string
}

func testSourceOf(t *testing.T, folder string) testSource {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := testSource{tests: map[string]bool{}}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.FuncDecl:
				out.tests[n.Name.Name] = n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test")
			case *ast.BasicLit:
				if text, ok := textOf(n); ok {
					out.texts = append(out.texts, text)
				}
			case *ast.CallExpr:
				out.calls = append(out.calls, textsOf(n.Args))
			case *ast.CompositeLit:
				out.calls = append(out.calls, textsOf(n.Elts))
			}
		}
	}
	return out
}

func textsOf(all []ast.Expr) (out []string) {
	for _, e := range all {
		if text, ok := textOf(e); ok {
			out = append(out, text)
		}
	}
	return out
}

func textOf(n ast.Expr) (string, bool) {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// readsPage says whether a package has the path of a page, whose commands it runs.
func (s testSource) readsPage(page string) bool {
	return slices.ContainsFunc(s.texts, func(text string) bool { return strings.HasSuffix(text, "/"+page) })
}

// runs says whether a package has a command, or a call with the same verb and the same flags: then the names of objects and
// files are its own.
func (s testSource) runs(command string) bool {
	isCommand := func(text string) bool {
		_, after, found := strings.Cut("espalier "+text+"\n", "espalier "+command)
		if !found {
			_, after, found = strings.Cut(text+"\n", "espalier "+command)
		}
		return found && (strings.HasPrefix(after, "\n") || strings.HasPrefix(after, " |") || strings.HasPrefix(after, " >"))
	}
	if slices.ContainsFunc(s.texts, isCommand) {
		return true
	}
	verb, flags := shape(shellWords(command))
	return slices.ContainsFunc(s.calls, func(call []string) bool {
		i := slices.Index(call, verb[0])
		if i < 0 || len(call) < i+len(verb) || !slices.Equal(call[i:i+len(verb)], verb) {
			return false
		}
		_, has := shape(call[i:])
		return !slices.ContainsFunc(flags, func(flag string) bool { return !slices.Contains(has, flag) })
	})
}

// shape is the verb of a command, with those below it, and the names of its flags.
func shape(args []string) (verb, flags []string) {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return args[:1], nil
	}
	verb = strings.Fields(cmd.CommandPath())[1:]
	for _, arg := range rest {
		name, isLong := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case isLong:
			flags = append(flags, name)
		case len(arg) == 2 && arg[0] == '-':
			if flag := cmd.Flags().ShorthandLookup(arg[1:]); flag != nil {
				flags = append(flags, flag.Name)
			}
		}
	}
	return verb, flags
}

func TestACommandIsFoundInTestsByItsWordsOrByItsFlags(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source testSource
		want   bool
	}{
		"its words":              {testSource{texts: []string{"espalier tree vpc main -n prod --watch"}}, true},
		"its words, with a pipe": {testSource{texts: []string{"bin/espalier tree vpc main -n prod --watch | head"}}, true},
		"without the program":    {testSource{texts: []string{"tree vpc main -n prod --watch"}}, true},
		"more words":             {testSource{texts: []string{"espalier tree vpc main -n prod --watch -o json"}}, false},
		"fewer words":            {testSource{texts: []string{"espalier tree vpc main -n prod"}}, false},
		"a call with its flags":  {testSource{calls: [][]string{{"tree", "--watch", "--namespace", "--kubeconfig"}}}, true},
		"a call without one":     {testSource{calls: [][]string{{"tree", "--namespace", "prod"}}}, false},
		"another verb":           {testSource{calls: [][]string{{"why", "--watch", "--namespace"}}}, false},
		"nothing":                {testSource{}, false},
	}
	for name, tc := range cases {
		if got := tc.source.runs("tree vpc main -n prod --watch"); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
