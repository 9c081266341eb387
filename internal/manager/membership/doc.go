// Package membership makes this process one of several replicas that share the work. Each replica has a
// record in a Lease of its own, and package shard decides from all records which objects it reconciles.
// Another Lease, the group's, is the one by which replicas without sharding elect their leader: while the
// group holds it, none of those leads. It counts the epochs.
//
// Read Run first, then step.go, and tenure.go for what a reconcile sees.
package membership
