// Package schema turns the shorthand that authors write for the fields of a
// kind (SimpleSchema) into the schema that the API server serves, tells what
// changed between two such schemas and whether that breaks anybody, and hands
// schemas to expressions in the form from which they are typed.
//
// Everything here is a function of its arguments: the same input gives the same
// bytes.
//
// Pure: it decides from values alone.
package schema
