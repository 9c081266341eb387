// Package watch shares watches of Kubernetes kinds between many subscribers, the instances that compose children, and
// wakes each subscriber for the objects that concern it. See docs/design/0005-one-hub-of-watches.md.
//
// A Hub runs one actor for each selection of a kind that has a subscriber. An actor has its own reflector: it alone
// lists, watches, backs off and starts over, and a failure of its kind affects its own subscribers only. No caller
// waits for an actor: interest is declared and withdrawn in a map, and whether the kind is in sync is a State to read,
// whose changes wake the subscribers like any other event.
//
//	lease := hub.Begin(instance)
//	defer lease.Discard()
//	children, state := lease.Children(kind, owner) // declared and read in one step
//	…
//	lease.Commit()
//
// # Promises
//
// No change is missed. A target is routed from before Watch returns until a later Commit leaves it out, so what is read
// after Watch is current, or an event is about to follow. Both the old and the new form of an object are routed. What a
// broken watch missed is found by the next list. Events may be duplicated, and several may concern what one read finds,
// so they carry keys and hints and no objects.
//
// Stopping starts nothing and waits for nothing. A watch ends some time after its last subscriber has left; a KindWatch
// is its own identity, so a late Stop cannot stop its successor.
//
// Reads never go back. Answers to writes (Record) can be read at once, are never replaced by an older revision that the
// watch delivers later. Their events wake nobody; of one that comes before its answer Config.Wrote says whose write it
// was.
//
// A kind that is gone is reported as gone, and its objects as deleted. A kind that merely cannot be read is never
// considered gone, and each read returns the state that it belongs to. When the kind returns, in whatever version or
// schema, watching resumes by itself.
//
// # Locks
//
// The hub's lock guards the interests, an actor's its progress, a store's the objects, a router's the index, a quota's
// the counts of watches. Each is held for map operations only, never during a list, a watch, or a call to a subscriber.
// The hub's may be held while another is taken, and the lock that counts forbidden watches while the hub's is taken; no
// other pair is ever held together.
package watch
