// Package examples holds the examples, so that a program can bring them along.
package examples

import "embed"

// EKSWithVPC is three layers on the sandbox cloud: a network, a cluster, and both
// together. Its files are to be applied in the order of their names.
//
//go:embed eks-with-vpc/*.yaml
var EKSWithVPC embed.FS
