// Package workspace checks definitions, compositions and objects in files, without a cluster: with the compilers of the
// controllers, and the kinds of Kubernetes, of the files, and of an optional further source. See
// docs/design/0016-the-controllers-without-effect.md.
//
// Begin with New; Workspace.Findings lists all problems with their places, and Workspace.Graphs what compiled.
//
// It does no I/O.
package workspace
