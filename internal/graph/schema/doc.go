// Package schema parses SimpleSchema, in which authors write the fields of a
// kind, into the schema that the API server serves. It also compares two such
// schemas, says which changes are breaking, and prepares schemas for the type
// checker of expressions.
//
// The same input gives the same bytes.
//
// Pure: it decides from values alone.
package schema
