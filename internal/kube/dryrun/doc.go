// Package dryrun lets a program run against a cluster that it must not change, and tells
// what it would have changed.
//
// An Overlay is put into the transport of a connection. Reads pass. Each write is sent to
// the API server as a dry run, so that validation, defaulting and admission are the
// server's own; nothing is stored. The answer is kept in memory, and from then on every
// read, list and watch through the overlay shows the object as it was answered. So a
// controller goes on from its own writes, as it would if they were stored.
//
// The server can try one write at a time only, always on what is stored. A second write to
// an object is therefore merged with the first here, with the API server's own library for
// field ownership, and sent to the server as one update.
//
// What an overlay doesn't show: what other controllers would do in answer to a write, such
// as the garbage collector; and of a kind that would be installed, validation and admission.
package dryrun
