// Package model computes what is sent to AWS for a managed resource, and compares that with what a read
// returns, by the schema of the resource's type: the desired state of a creation, the differences that an
// update has to correct, and the JSON patch that does so.
//
// Values are JSON as Kubernetes decodes it: map[string]any, []any, string, bool, int64 and float64.
//
// Pure: it decides from values alone.
package model
