// Package watch shares watches of Kubernetes kinds between many subscribers,
// the instances that compose children, and wakes each for the objects that
// concern it.
//
// A Hub runs one actor for each selection of a kind that somebody wants. An
// actor owns its informer: it alone lists, watches, backs off and starts over,
// and what goes wrong with its kind concerns its own subscribers only. Nothing
// that a caller does waits for it: interest is declared and withdrawn in a map,
// and whether the kind is in sync is a State to look at, whose changes wake the
// subscribers like any other event.
//
//	lease := hub.Begin(instance)
//	defer lease.Discard()
//	children, state := lease.Children(kind, owner) // declared, then read, as one
//	…
//	lease.Commit()
//
// # Promises
//
// No change is missed. A target is routed from before Want returns until it is
// committed away, so what is read after Want is current or about to be
// announced; both the old and the new form of an object are routed; what a
// broken watch missed the next list finds. Wake-ups may be duplicated, and
// several may be about what one look finds, which is why they carry keys and
// hints and no objects.
//
// Stopping starts nothing and waits for nothing. The last subscriber gone, a
// watch ends after a grace; a Serving is its own identity, so a late Stop can't
// hit its successor.
//
// Reads go forward. Answers to writes (Record) are read at once, are never
// replaced by an older revision that the watch delivers later, and don't come
// back to their writer as events.
//
// A kind that is gone is told as such, its objects as deleted; what only can't be
// read is never taken for gone, and a reading comes with the state that it belongs
// to. When the kind returns, in whatever version or schema, watching resumes by
// itself.
//
// # Locks
//
// The hub's lock guards who wants what, an actor's how its watch goes, a
// store's the objects, a router's the index. Each is held for map operations
// only, never during a list, a watch, or a call to a subscriber. The hub's may be
// held while taking another, and the lock that counts what is forbidden while
// taking the hub's; no other pair is ever held together.
package watch
