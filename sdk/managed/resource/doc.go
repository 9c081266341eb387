// Package resource holds what the kinds of all managed resources have in common:
// the fields of spec and status that their users know, as Go types that a
// provider's own types embed.
//
// +kubebuilder:object:generate=true
//
// Pure: it decides from values alone.
package resource

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=.
