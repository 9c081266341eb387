package patchandtransform

import (
	"fmt"
	gomath "math"
)

// number is a number as a format sees it: whole, where the verb is one of integers, and a
// fraction, where it is one of those. Whether 8 is an integer isn't an author's to know:
// some have written %d, others %.0f, and each of them has seen it work.
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
		if f, ok := value.(float64); ok && f == gomath.Trunc(f) && gomath.Abs(f) <= exact {
			value = int64(f)
		}
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), value)
}

// exact is up to where a float64 holds every whole number.
const exact = 1 << 53
