// Package shard spreads objects over the replicas of the controllers, so that one replica at a time
// reconciles each.
//
// Objects are hashed into slots by their namespace, and slots are assigned to replicas by rendezvous
// hashing over a View, the replicas that are known to run. Each replica publishes the view by which it
// works. Next decides how replicas with different views agree, without a leader: a replica gives up
// slots before it publishes a view that assigns them to others, and takes slots once nobody else's
// published view assigns them to somebody else.
//
// Why no two replicas work on a slot: assume that R takes it. R has published a view that assigns it to
// R, and has read, later than that, the record of each other replica M. None of them assigned the slot
// to M. If M publishes a view that does, M reads R's record after that, finds that it assigns the slot
// to R, and waits until R has given it up. Replicas that don't renew their Lease stop working when it
// expires, by their own clock, and lose it before anybody takes their slots.
//
// The shell is package membership, which keeps a record in a Lease for each replica.
//
// Pure: it computes, and has no clock.
package shard
