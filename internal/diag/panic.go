package diag

import (
	"fmt"
	"runtime"
)

// maxPanicLength bounds the text of a panic.
const maxPanicLength = 1 << 10

// Panic describes the value of a panic in a message: the text of a mistake in the program, and of anything else its
// type alone, because the value may quote a Secret.
func Panic(value any) string {
	if mistake, ok := value.(runtime.Error); ok {
		return Truncate("panic: "+mistake.Error(), maxPanicLength)
	}
	return Truncate(fmt.Sprintf("panic with a %T", value), maxPanicLength)
}
