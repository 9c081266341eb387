package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/espalier-dev/espalier/internal/object"
)

// groupOfKind matches the group of a CustomResourceDefinition.
var groupOfKind = regexp.MustCompile(`(?m)^kind: CustomResourceDefinition(?:\n.+)*\nspec:\n(?:  .+\n)*?  group: (\S+)$`)

func TestKindsAreInOwnGroups(t *testing.T) {
	kinds := 0
	for _, dir := range []string{"api", "charts", "providers"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range groupOfKind.FindAllStringSubmatch(string(text), -1) {
				kinds++
				if group := found[1]; group != "kro.run" && !object.IsOwnGroup(group) {
					t.Errorf("%s: definitions can have kinds in the group %s; add it to the own groups", path, group)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if kinds < 20 {
		t.Errorf("found only %d kinds", kinds)
	}
}
