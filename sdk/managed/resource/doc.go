// Package resource holds the fields of spec and status that all kinds of managed resources
// have in common, as Go types that a provider's types embed, with their conditions,
// annotations and policies.
//
// +kubebuilder:object:generate=true
//
// Pure: it decides from values alone.
package resource

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=.
