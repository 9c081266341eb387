package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	answerRow = regexp.MustCompile(`(?m)^\| (\d+) \|.*\| ([^|]*) \|$`)
	proof     = regexp.MustCompile("`([a-z/]+)`: ((?:Test\\w+(?:, )?)+)")
)

// TestAnswersAreProved checks that each answer names tests that exist, in the folder where they are said to
// be, or a target of the Makefile.
func TestAnswersAreProved(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "answers.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := answerRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) != 25 {
		t.Errorf("there are %d answers", len(rows))
	}
	for _, row := range rows {
		proofs := proof.FindAllStringSubmatch(row[2], -1)
		if len(proofs) == 0 && !strings.Contains(row[2], "`make ") {
			t.Errorf("answer %s has no proof: %s", row[1], row[2])
		}
		for _, p := range proofs {
			code := testsBelow(t, filepath.Join(root, p[1]))
			for _, name := range strings.Split(strings.TrimSuffix(p[2], ", "), ", ") {
				if !strings.Contains(code, "func "+name+"(t *testing.T)") {
					t.Errorf("answer %s: %s has no %s", row[1], p[1], name)
				}
			}
		}
	}
}

// testsBelow is the code of the tests in a folder and those below it.
func testsBelow(t *testing.T, folder string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		out.Write(text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return out.String()
}
