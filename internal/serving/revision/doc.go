// Package revision decides about the revisions of graph definitions: which content is new,
// how revisions are called, which are kept, which one a definition asks for, and which one
// composes an instance while a rollout is under way. It is pure: what there is comes in as
// values, and nothing is written to choose.
//
// Pure: it decides from values alone.
package revision
