package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/object"
)

// Inspections are, by the UID of a child, the results of inspecting fields with drift that is reported and not
// corrected.
type Inspections map[types.UID]Inspection

// Inspection separates the fields that another manager has changed from fields that the server grants no ownership of.
type Inspection struct {
	// Digest is the FieldsDigest of the inspected fields.
	Digest string
	// Drifted are the fields that were changed, and Managers names their managers, as far as
	// they are known.
	Drifted  []object.Path
	Managers string
}

// FieldsDigest is the digest of fields of an object and their values: while it is the same,
// inspecting them gives the same result.
func FieldsDigest(o *unstructured.Unstructured, fields []object.Path) string {
	values := make([]any, len(fields))
	for i, field := range fields {
		values[i] = object.ValueAt(o.Object, field)
	}
	return object.Digest([]any{fields, values})
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
