// Package takeover says what would become of the objects of another engine, and what has
// become of them: it compares states of objects, and writes the answer for people and for
// programs.
package takeover

import "github.com/espalier-dev/espalier/internal/object"

// Warning is an event of type Warning that would be recorded.
type Warning struct {
	Object          object.Key
	Reason, Message string
}
