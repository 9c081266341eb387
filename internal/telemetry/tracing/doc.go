// Package tracing makes OpenTelemetry spans of what the controllers do, and joins them into one trace from the change
// of an object to the last status that follows from it. See docs/design/0017-what-the-program-shows.md.
//
// A watch event is a span. The reconciles that it wakes are its children, their requests, nodes and calls of functions
// are children of those, and the event of an object that a reconcile has written is a child of the request that wrote
// it. So a change at the bottom of nested instances leads to the status of the top one in one trace. The causes are
// kept in memory alone: objects get no annotations, and there are no further requests.
//
// Spans never contain values of objects: only names, identifiers, versions, codes and reasons. Keys lists all
// attributes.
//
// Without a Tracer, which may be nil, nothing is recorded, and nothing is allocated. The package knows only the API of
// OpenTelemetry; the program that wants traces brings an implementation of it.
//
// Read Tracer first, then cause.go, which joins the spans, and request.go.
package tracing
