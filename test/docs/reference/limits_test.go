package reference

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// limit is a constant of the program that bounds something.
type limit struct {
	value string // as people write it: 16 KiB, 10m
	exact string // with all digits: 16,384
	doc   string
}

var limiting = regexp.MustCompile(`^(max|Max|most|Most|longest|Longest|largest|slowest)([A-Z].*)?$|(Limit|Deadline|Window|Losses|Quiet|Depth)$`)

// limits are the constants that bound something, by package and name: internal/graph.MaxItems. Of providers they are all
// constants: the page has those that people meet, whatever their names.
func limits(t *testing.T) map[string]limit {
	t.Helper()
	out := map[string]limit{}
	for _, folder := range []string{"internal", "cmd", "providers/aws"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testkit" || entry.Name() == "testdata"):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			collect(f, filepath.ToSlash(dir), out)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// collect adds the constants of a file, those of functions too.
func collect(f *ast.File, dir string, out map[string]limit) {
	known := map[string]constant.Value{}
	ast.Inspect(f, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return true
		}
		for _, s := range decl.Specs {
			spec, _ := s.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					continue
				}
				value, isTime := evalConst(spec.Values[i], known)
				if value == nil || value.Kind() != constant.Int {
					continue
				}
				known[name.Name] = value
				if limiting.MatchString(name.Name) || isOfProvider(dir) {
					n, _ := constant.Int64Val(value)
					out[dir+"."+name.Name] = limit{value: readable(n, isTime || isDuration(spec.Values[i])), exact: grouped(n), doc: spec.Doc.Text()}
				}
			}
		}
		return true
	})
}

func isOfProvider(name string) bool { return strings.HasPrefix(name, "providers/") }

var durations = map[string]time.Duration{"Second": time.Second, "Millisecond": time.Millisecond, "Minute": time.Minute, "Hour": time.Hour}

// evalConst is the value of an expression of literals, durations and constants of its file; nil
// for any other.
func evalConst(x ast.Expr, known map[string]constant.Value) (value constant.Value, isTime bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(x.Value, x.Kind, 0), false
	case *ast.ParenExpr:
		return evalConst(x.X, known)
	case *ast.Ident:
		return known[x.Name], false
	case *ast.SelectorExpr:
		if d, ok := durations[x.Sel.Name]; ok {
			return constant.MakeInt64(int64(d)), true
		}
	case *ast.BinaryExpr:
		a, timeA := evalConst(x.X, known)
		b, timeB := evalConst(x.Y, known)
		if a == nil || b == nil || a.Kind() != constant.Int || b.Kind() != constant.Int {
			return nil, false
		}
		if x.Op == token.SHL {
			n, _ := constant.Uint64Val(b)
			return constant.Shift(a, token.SHL, uint(n)), false
		}
		op := x.Op
		if op == token.QUO {
			op = token.QUO_ASSIGN // of integers
		}
		return constant.BinaryOp(a, op, b), timeA || timeB
	}
	return nil, false
}

// isDuration reports whether an expression names a constant that is a time: contestWindow / 3.
func isDuration(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && (strings.HasSuffix(id.Name, "Window") || durations[id.Name] != 0)
		return true
	})
	return found
}

func readable(n int64, isTime bool) string {
	switch {
	case isTime:
		text := time.Duration(n).String()
		text = strings.TrimSuffix(text, "0s")
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		if text == "" || !strings.ContainsAny(text[len(text)-1:], "smh") {
			text = time.Duration(n).String()
		}
		return text
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0 && n != 4096 && n != 1024:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return grouped(n)
}

// grouped is a number whose digits are in groups of three, if it has more than four.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && len(text) > 4; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

var limitKey = regexp.MustCompile(`<!-- ((?:internal|cmd|providers)/[a-zA-Z0-9/]+\.[a-zA-Z0-9]+) -->`)

// TestEveryLimitIsOnThePage compares limits.md with the constants of the program and of providers. A limit of the
// program that people cannot meet is in testdata/inner-limits.txt, with what it bounds.
func TestEveryLimitIsOnThePage(t *testing.T) {
	found := limits(t)
	p := load(t, "limits.md")
	told, changed := map[string]bool{}, false
	for _, r := range p.rows() {
		for _, key := range limitKey.FindAllStringSubmatch(strings.Join(r.cells, "|"), -1) {
			name := key[1]
			told[name] = true
			l, there := found[name]
			if !there {
				t.Errorf("limits.md:%d: there is no %s", r.line+1, name)
				continue
			}
			if r.cells[1] == l.value || r.cells[1] == l.exact {
				continue
			}
			if golden.Update() {
				r.cells[1] = l.value
				p.lines[r.line], changed = "| "+strings.Join(r.cells, " | ")+" |", true
				continue
			}
			t.Errorf("limits.md:%d: %s is %s, and the page says %s", r.line+1, name, l.value, r.cells[1])
		}
	}
	if changed {
		p.save(t)
	}
	inner := innerLimits(t)
	for name, l := range found {
		switch {
		case told[name] && inner[name]:
			t.Errorf("%s is on limits.md and in testdata/inner-limits.txt", name)
		case !told[name] && !inner[name] && !isOfProvider(name):
			t.Errorf("neither limits.md nor testdata/inner-limits.txt has %s, which is %s: %s", name, l.value, l.doc)
		}
	}
	for name := range inner {
		if _, there := found[name]; !there {
			t.Errorf("testdata/inner-limits.txt: there is no %s", name)
		}
	}
}

func innerLimits(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("testdata/inner-limits.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		name, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if strings.TrimSpace(why) == "" {
			t.Errorf("testdata/inner-limits.txt does not say what %s bounds", name)
		}
		out[name] = true
	}
	return out
}
