// Package v1 holds the kinds of pkg.crossplane.io/v1: packages of the three types, and their revisions. A package is an image
// with definitions, and, but for Configurations, with a program that runs in the cluster.
//
// The package kinds have the same fields, except that a Configuration has nothing to run; so have the kinds of revisions.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1
