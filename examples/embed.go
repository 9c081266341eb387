// Package examples holds the examples, so that a program can bring them along.
package examples

import "embed"

// EKSWithVPC is three layers: a network, a cluster, and both together; on the sandbox cloud and, in
// the folder aws, on AWS. Its files are to be applied in the order of their names.
//
//go:embed eks-with-vpc/*.yaml eks-with-vpc/aws/*.yaml
var EKSWithVPC embed.FS
