package patchandtransform

import (
	"fmt"
	gomath "math"
)

// number formats a number with verbs for integers and for floats alike. Whether 8 is an int64 or a float64 depends on
// where it was read, which authors can't see: existing compositions use %d and %.0f, and both must work.
type number struct{ value any }

// Format writes the number.
func (n number) Format(s fmt.State, verb rune) {
	value := n.value
	switch verb {
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if whole, ok := value.(int64); ok {
			value = float64(whole)
		}
	case 'b', 'c', 'd', 'o', 'O', 'q', 'x', 'X', 'U':
		if f, ok := value.(float64); ok && f == gomath.Trunc(f) && gomath.Abs(f) <= float64Integers {
			value = int64(f)
		}
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), value)
}

// float64Integers is the bound up to which a float64 holds every integer.
const float64Integers = 1 << 53
