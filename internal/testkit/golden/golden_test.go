package golden

import (
	"os"
	"path/filepath"
	"testing"
)

const recorded = `It says hello.
-- name --
Ann
-- want-greeting --
Hello Ann.
`

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hello.txtar")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInputAndExpectedFilesAreDistinguished(t *testing.T) {
	Run(t, write(t, recorded), func(t *testing.T, a *Archive) {
		if a.Name != "hello" || len(a.Input) != 1 || a.Input["name"] != "Ann\n" {
			t.Errorf("read %s: %v", a.Name, a.Input)
		}
		if !a.Wants("greeting") || a.Wants("name") || a.IsNew() {
			t.Error("wrong expected files")
		}
		a.Record("greeting", "Hello Ann.")
	})
}

func TestUpdateReplacesOnlyExpectedFiles(t *testing.T) {
	*update = true
	t.Cleanup(func() { *update = false })
	path := write(t, recorded)
	Run(t, path, func(_ *testing.T, a *Archive) {
		a.Record("greeting", "Good morning Ann.\n\n")
		a.Record("nothing", "")
	})
	const want = "It says hello.\n-- name --\nAnn\n-- want-greeting --\nGood morning Ann.\n-- want-nothing --\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("wrote %q, %v", got, err)
	}
	Compare(t, path, "other")
	if got, err := os.ReadFile(path); err != nil || string(got) != "other" {
		t.Errorf("wrote %q, %v", got, err)
	}
}
