// Package schema turns the shorthand that authors write for the fields of a
// kind (SimpleSchema) into the schema that the API server serves, lists the
// changes between two such schemas and whether they are breaking, and prepares
// schemas for the type checker of expressions.
//
// Everything here is a function of its arguments: the same input gives the same
// bytes.
//
// Pure: it decides from values alone.
package schema
