package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxNameLength is the maximum length of a name in bytes. The server truncates longer names
// instead of rejecting them.
const maxNameLength = 63

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxNameLength:
		return fmt.Errorf("%s %q has %d bytes; names in PostgreSQL have %d at most", what, name, len(name), maxNameLength)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("%s %q contains a zero byte or invalid UTF-8", what, name)
	}
	return nil
}

func checkOptional(what string, name *string) error {
	if name == nil {
		return nil
	}
	return checkName(what, *name)
}

func checkText(what, text string) error {
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return fmt.Errorf("%s contains a zero byte or invalid UTF-8", what)
	}
	return nil
}

// A qualified name has several parts, such as a schema and a table.
func ident(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// It requires standard_conforming_strings, which each connection sets.
func literal(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", "''") + "'"
}

func idents(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = ident(name)
	}
	return strings.Join(quoted, ", ")
}
