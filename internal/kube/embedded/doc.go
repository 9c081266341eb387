// Package embedded runs the control plane program as a child of this process.
//
// The control plane is a program of its own because what it links would otherwise be linked by
// everything that imports this module. The child ends with its parent, however the parent ends.
package embedded
