// Package expr compiles and evaluates the expressions of the graph dialect: CEL
// between ${ and } inside the strings of a document.
// See docs/design/0004-compiling-definitions.md.
//
// An Env holds what expressions may name. Env.Compile checks one expression and
// Env.Template a whole document, against the schemas of what is read and of what
// is written; both report every problem they find as diagnostics. A Program or a
// Template is then evaluated many times and by many goroutines. A value that
// is missing is a result of its own, Pending, which names the missing paths: no
// caller compares error texts to distinguish it from a failure.
//
// Pure: it decides from values alone.
package expr
