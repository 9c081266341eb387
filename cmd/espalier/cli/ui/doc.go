// Package ui serves the pages of `espalier ui`: HTML, CSS and ES modules, embedded in the program with Preact, and streams of
// server-sent events. What they show is computed by internal/observe/page; this package reads for the viewer, and only with the viewer's own
// permissions. Nothing is written.
// See docs/design/0017-what-the-program-shows.md.
//
// Begin with Server. A Session is a viewer who has logged in, with the Cluster to read with. Each open page has one or two streams,
// and each stream has watches of its own, which end with it.
package ui
