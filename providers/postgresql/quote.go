package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// longestName is how many bytes a name may have. The server would cut a longer one
// off, and what was made would have another name than was asked for.
const longestName = 63

// checkName says why something can't be a name on a server.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > longestName:
		return fmt.Errorf("%s %q has %d bytes; PostgreSQL's names have %d at most", what, name, len(name), longestName)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("%s %q has bytes that no name can have", what, name)
	}
	return nil
}

// checkOptional checks a name that may be left out.
func checkOptional(what string, name *string) error {
	if name == nil {
		return nil
	}
	return checkName(what, *name)
}

// checkText says why something can't be a text on a server.
func checkText(what, text string) error {
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return fmt.Errorf("%s has a byte that ends it, or one that is no part of a letter", what)
	}
	return nil
}

// ident quotes a name, or several that belong together, such as a schema and a
// table in it.
func ident(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// literal quotes a text. It counts on standard_conforming_strings, which each
// connection sets.
func literal(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", "''") + "'"
}

// idents quotes a list of names.
func idents(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = ident(name)
	}
	return strings.Join(quoted, ", ")
}
