// Package pipeline runs the functions of a composition's pipeline: it calls them, enforces
// limits, fetches what they require and returns the desired state as a value. It doesn't
// act on that value.
// See docs/design/0013-composites-and-functions.md.
//
// A Runner calls one function once. Remote calls functions by gRPC, Processes runs
// functions as child processes and is the Endpoints of a Remote, and Functions runs
// functions in this process. Guard limits a runner, and Cache caches its responses. A
// Pipeline runs steps one after the other on a runner:
//
//	Pipeline → Cache → Guard → FirstOf{Functions, Remote}
//
// Requests and responses are shared between callers and are never changed after they are
// passed on. Functions that run in this process get a copy.
package pipeline
