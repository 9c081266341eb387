package diag

import "fmt"

// Counted returns a number with a noun, or a clause, in the singular or the plural.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
