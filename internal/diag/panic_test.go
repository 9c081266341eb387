package diag_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestPanic(t *testing.T) {
	mistake := func(do func()) (value any) {
		defer func() { value = recover() }()
		do()
		return nil
	}
	none := 0
	var missing map[string]any
	for want, value := range map[string]any{
		"panic: runtime error: integer divide by zero": mistake(func() { none = 1 / none }),
		"panic: assignment to entry in nil map":        mistake(func() { missing["a"] = 1 }),
		"panic with a string":                          "the password is " + strings.Repeat("\x1b", 1<<20),
		"panic with a *errors.errorString":             errors.New("the password"),
	} {
		if got := diag.Panic(value); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
