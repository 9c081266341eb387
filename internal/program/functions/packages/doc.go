// Package packages finds and calls the functions of a cluster. It watches Functions and FunctionRevisions, so a call
// needs no request to the API server, and notifies subscribers of changes, so composites that use a function are
// reconciled. See docs/design/0013-composites-and-functions.md.
//
// It doesn't run packages. If no package manager manages a Function, it sets the Function's conditions; otherwise it
// leaves the Function unchanged.
package packages
