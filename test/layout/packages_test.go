package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// pkg is a package of the workspace as the go command lists it, without its tests.
type pkg struct {
	Dir        string
	ImportPath string
	Module     struct{ Path string }
	GoFiles    []string
	Imports    []string
	Deps       []string
	// pure: the comment of the package has a line that begins with "Pure:".
	pure bool
}

// packages lists the packages of the workspace's modules by import path.
func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	found, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var listed = sync.OnceValues(func() (map[string]*pkg, error) {
	out, err := goCommand("list", "-json=Dir,ImportPath,Module,GoFiles,Imports,Deps", "work")
	if err != nil {
		return nil, err
	}
	found := map[string]*pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.GoFiles) > 0 { // the others hold tests alone
			if p.pure, err = p.promises("Pure:"); err != nil {
				return nil, err
			}
			found[p.ImportPath] = &p
		}
	}
})

// goCommand runs the go command in the repository's root and in its workspace, whatever the
// environment says of that, and returns what it prints.
func goCommand(args ...string) ([]byte, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", args...)
	command.Dir, command.Stderr = root, os.Stderr
	command.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	return command.Output()
}

// promises reports whether the comment of the package has a line with a prefix.
func (p *pkg) promises(line string) (bool, error) {
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if file.Doc != nil && strings.Contains("\n"+file.Doc.Text(), "\n"+line) {
			return true, nil
		}
	}
	return false, nil
}

// use is the use of a function of another package.
type use struct{ name, at string }

// uses lists the functions of other packages that the sources of the package use.
func (p *pkg) uses(t *testing.T) []use {
	t.Helper()
	var out []use
	files := token.NewFileSet()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		imported := map[string]string{} // what a package is called here: its path
		for _, i := range file.Imports {
			at, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			called := path.Base(at)
			if i.Name != nil {
				called = i.Name.Name
			}
			imported[called] = at
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); ok && imported[x.Name] != "" {
				at := strings.TrimPrefix(files.Position(selector.Pos()).String(), filepath.Dir(filepath.Dir(p.Dir))+string(filepath.Separator))
				out = append(out, use{name: imported[x.Name] + "." + selector.Sel.Name, at: at})
			}
			return true
		})
	}
	return out
}
