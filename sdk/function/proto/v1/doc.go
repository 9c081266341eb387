// Package fnv1 is the protocol that a control plane and the functions of a
// composition's pipeline speak. It is wire-compatible with what functions written for
// Crossplane speak: its protobuf package is apiextensions.fn.proto.v1.
//
// A program can hold one registration of a protobuf package. One that imports this
// package cannot import another that was generated for the same protobuf package.
package fnv1

//go:generate env GOWORK=off go run -C ../../../../hack/protogen . ../.. sdk/function/proto/v1/function.proto
