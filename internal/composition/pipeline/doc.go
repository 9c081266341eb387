// Package pipeline runs the functions of a composition's pipeline: it calls them, holds
// what they do within bounds, gives them what they require and returns what they want as
// a value. It decides nothing about that value.
//
// A Runner calls one function once; there are runners for functions behind gRPC (Remote,
// with Processes for those that are child processes of this one), and in this process
// (Functions). Guard bounds a runner and Cache remembers its answers. A Pipeline runs
// steps one after the other on a runner:
//
//	Pipeline → Cache → Guard → Any{Functions, Remote}
//
// Requests and responses are shared between callers and are never changed once they have
// been handed over. Functions that run in this process get a copy.
package pipeline
