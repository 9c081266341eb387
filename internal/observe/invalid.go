package observe

import (
	"fmt"
	"slices"
	"strings"
)

// invalidReasons are the reasons of definitions and compositions that do not compile. Their messages have one problem a line.
var invalidReasons = []string{"InvalidResourceGraph", "InvalidDefinition", "InvalidPipeline"}

// invalidPrefix begins such a message in kro's dialect, and stillServed ends it in Crossplane's.
const (
	invalidPrefix = "failed to build resourcegraphdefinition: "
	stillServed   = "\nthe last valid definition is still served"
)

// isInvalid reports whether a node is a definition that does not compile.
func (n Node) isInvalid() bool {
	return !n.Instance && n.Ready == False && slices.Contains(invalidReasons, n.Reason)
}

// problems are the problems of a definition that does not compile.
func (n Node) problems() []string {
	if !n.isInvalid() {
		return nil
	}
	text := strings.TrimSuffix(strings.TrimPrefix(n.Message, invalidPrefix), stillServed)
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// listOf writes problems one a line, below their count if there are several.
func listOf(problems []string) string {
	if len(problems) == 1 {
		return problems[0]
	}
	return fmt.Sprintf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
}

// rowOf writes problems on one line, for a table.
func rowOf(problems []string) string {
	if len(problems) == 1 {
		return problems[0]
	}
	return fmt.Sprintf("%d problems: %s", len(problems), strings.Join(problems, "; "))
}
