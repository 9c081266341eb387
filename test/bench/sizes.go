package main

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSize bounds a size: the number in a name has five digits.
const maxSize = 99_999

// sizes are ascending numbers of objects, as a flag: "100,1000".
type sizes []int

// String implements flag.Value.
func (s *sizes) String() string {
	var parts []string
	for _, n := range *s {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ",")
}

// Set implements flag.Value.
func (s *sizes) Set(text string) error {
	var out sizes
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil || n < 1 || n > maxSize:
			return fmt.Errorf("%q is no number from 1 to %d", part, maxSize)
		case len(out) > 0 && n <= out[len(out)-1]:
			return fmt.Errorf("%d does not follow %d: the numbers must ascend", n, out[len(out)-1])
		}
		out = append(out, n)
	}
	*s = out
	return nil
}
