// Package dryrun lets a program run against a cluster that it must not change, and reports what it would have changed.
// See docs/design/0016-the-controllers-without-effect.md.
//
// An Overlay wraps the transport of a connection. Reads pass. Each write is sent to the API server as a dry run, so
// validation, defaulting and admission are the server's own; nothing is stored. The answer is kept in memory, and from
// then on every read, list and watch through the overlay shows the object as answered. So a controller sees its own
// writes, as if they were stored.
//
// The server can dry-run one write at a time only, always on the stored object. So the overlay merges a second write to
// an object with the first, with the API server's own library for field ownership, and sends the result to the server
// as one update.
//
// An overlay does not show what other controllers would do in response to a write, such as the garbage collector; nor
// validation and admission of a kind that would be installed.
package dryrun
