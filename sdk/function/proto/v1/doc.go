// Package fnv1 is the gRPC protocol between a control plane and the functions of a
// composition's pipeline. It is wire-compatible with Crossplane's: its protobuf package is
// apiextensions.fn.proto.v1.
//
// A program can only register a protobuf package once: a program that imports this package
// cannot import another one generated for the same protobuf package.
package fnv1

//go:generate env GOWORK=off go run -C ../../../../hack/protogen . ../.. sdk/function/proto/v1/function.proto
