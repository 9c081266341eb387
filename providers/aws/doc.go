// Package aws is the provider of AWS: every resource type that the Cloud Control API serves is a kind of managed
// resources, which is installed once it is activated.
// See docs/design/0018-providers.md.
//
// The kinds are made from the schemas of the types: see the packages catalog, naming, crd and reference. Package
// cloudcontrol manages their resources; package hook has what single types need beside; package account
// connects to AWS.
package aws
