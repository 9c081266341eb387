// Package revision decides about the revisions of graph definitions: which content is new, how
// revisions are named, which are kept, which one a definition selects, and which one composes an
// instance during a rollout.
// See docs/design/0012-revisions-rollouts-and-versions.md.
//
// Pure: it decides from values alone.
package revision
