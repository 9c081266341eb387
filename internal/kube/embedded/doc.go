// Package embedded runs the control plane program as a child of this process. See
// docs/design/0015-modules-packages-and-the-embedded-server.md.
//
// The control plane is a separate program, because everything that imports this module would otherwise link its
// dependencies. The child ends with its parent, however the parent ends.
package embedded
