package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	cases := map[string]struct {
		reason   string
		files    map[string]os.FileMode
		dir      string // the working directory
		variable string
		path     string
		want     string // "" means an error
		message  string
	}{
		"the variable goes before the source tree": {
			files:    map[string]os.FileMode{"set": 0o755, "src/go.mod": 0o644, "src/bin/" + program: 0o755},
			dir:      "src",
			variable: "set",
			want:     "set",
		},
		"a variable that names no program is an error": {
			reason:   "whoever set it must not run something else unknowingly",
			files:    map[string]os.FileMode{"src/go.mod": 0o644, "src/bin/" + program: 0o755},
			dir:      "src",
			variable: "set",
			message:  variable,
		},
		"bin of the module root is found from any directory below": {
			files: map[string]os.FileMode{"src/go.mod": 0o644, "src/bin/" + program: 0o755, "src/internal/deep/x.go": 0o644},
			dir:   "src/internal/deep",
			want:  "src/bin/" + program,
		},
		"a nested module looks in the outer one too": {
			reason: "the control plane's module lies within the root module",
			files:  map[string]os.FileMode{"src/go.mod": 0o644, "src/bin/" + program: 0o755, "src/sub/go.mod": 0o644},
			dir:    "src/sub",
			want:   "src/bin/" + program,
		},
		"bin of a directory that is no module does not count": {
			files:   map[string]os.FileMode{"src/bin/" + program: 0o755},
			dir:     "src",
			message: "make build",
		},
		"the PATH comes last": {
			files: map[string]os.FileMode{"usr/" + program: 0o755, "src/go.mod": 0o644, "src/bin/" + program: 0o644},
			dir:   "src",
			path:  "usr",
			want:  "usr/" + program,
		},
		"nothing anywhere says what to do": {
			files:   map[string]os.FileMode{"src/go.mod": 0o644},
			dir:     "src",
			message: "make build",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			in := func(name string) string {
				if name == "" {
					return ""
				}
				return filepath.Join(root, name)
			}
			for name, mode := range tc.files {
				if err := os.MkdirAll(filepath.Dir(in(name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(in(name), nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(in(tc.dir))
			t.Setenv(variable, in(tc.variable))
			t.Setenv("PATH", in(tc.path))

			got, err := Find()
			if got != in(tc.want) {
				t.Errorf("found %q, want %q; %s", got, in(tc.want), tc.reason)
			}
			if tc.want == "" && (err == nil || !strings.Contains(err.Error(), tc.message)) {
				t.Errorf("error %v does not name %q; %s", err, tc.message, tc.reason)
			}
		})
	}
}
