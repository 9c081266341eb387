package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// DriftCorrected is the reason of the event about a correction, and CorrectionMessage its message: the changed fields
// of an object, and their managers.
const DriftCorrected = "DriftCorrected"

// CorrectionMessage is read again by ReadCorrection.
func CorrectionMessage(fields string, o *unstructured.Unstructured, managers string) string {
	return fields + correctedOf(o) + managers + corrected
}

// ReadCorrection reads the message of an event about a correction; ok is false if it is about another object.
func ReadCorrection(message string, o *unstructured.Unstructured) (fields []string, managers string, ok bool) {
	text, rest, found := strings.Cut(message, correctedOf(o))
	managers, ok = strings.CutSuffix(rest, corrected)
	return strings.Split(text, ", "), managers, found && ok
}

func correctedOf(o *unstructured.Unstructured) string {
	return " of " + object.KeyOf(o).String() + " was changed by "
}

const corrected = " and is corrected"

const contestedPrefix = "another manager keeps overwriting "

// ContestedField reads the contested field from the message of a problem DriftContested of an object. It is empty if
// the message omits it, as it may come from a Secret. A status has only the message, also an earlier release's.
func ContestedField(message string, o *unstructured.Unstructured) object.Path {
	_, text, _ := strings.Cut(message, contestedPrefix)
	text, _, found := strings.Cut(text, " of "+object.KeyOf(o).String())
	if field := object.Path(text); found && text != redactedFields && field.Segments() != nil {
		return field
	}
	return ""
}

// FieldConflictProblem is the problem of a node with RefuseConflicts, given the fields in conflict
// and their managers.
func FieldConflictProblem(o *unstructured.Unstructured, fields []string, by string) Problem {
	text := "fields"
	if len(fields) > 0 {
		text = listPaths(fields)
	}
	return Problem{
		Reason: FieldConflict,
		Message: fmt.Sprintf("%s of %s is set by %s to another value, and conflicts: Refuse keeps it. The object is applied once the field is released or changed; conflicts: Force takes it over",
			text, object.KeyOf(o), by),
	}
}

// maxPaths bounds how many fields a message names.
const maxPaths = 5

// DescribeFields names fields of the step's object, unless their names may come from a Secret.
func (s Step) DescribeFields(paths []object.Path) string {
	if s.SecretFields {
		return redactedFields
	}
	return listPaths(paths)
}

const redactedFields = "fields (names redacted: they may come from a Secret)"

func listPaths[P ~string](paths []P) string {
	texts := make([]string, 0, len(paths))
	for _, p := range paths[:min(len(paths), maxPaths)] {
		texts = append(texts, string(p))
	}
	text := strings.Join(texts, ", ")
	if more := len(paths) - maxPaths; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
