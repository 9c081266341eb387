// Package cloudcontrol manages resources of any type through AWS's Cloud Control API. A resource type and its
// hooks come in, as a Kind; a managed.Client for managed resources without a Go type goes out. Package model
// computes what is sent and compares what is read.
//
// The reader goes on with client.go, which observes and prepares; begin.go, which makes calls; and errors.go,
// which says what is known after a call that failed.
package cloudcontrol
