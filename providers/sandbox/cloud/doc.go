// Package cloud is a small cloud that behaves like the large ones: networks,
// subnets, roles, clusters and buckets, in scopes, with tags, asynchronous
// operations, idempotency tokens, etags, quotas and dependencies that are
// enforced; and with what makes clouds hard to drive, each as a switch:
//
//   - a [Behaviour] for each type says who names a resource, how long a token is
//     honoured, whether resources can be found by their tags, how far reads lag
//     behind, how long work takes, when a name is free again;
//   - a [Fault] is a script for calls to come: this one is refused, that one
//     happens but its answer is lost, the next one lands a minute late;
//   - an [Admin] does what somebody else does: deletes, retags and changes behind
//     the back of whoever believes to be alone.
//
// Nothing is left to chance. The clock is an argument, what happens by itself is a
// function of that clock, evaluated when somebody looks, and the same calls at the
// same times leave the same bytes on disk. There are no goroutines and nothing
// waits: a fake clock drives a day of the cloud's life in microseconds.
//
// # Crashes
//
// A cloud lives in a directory. What a call has answered is there when the process
// is killed right after; a call that is killed on its way has happened altogether
// or not at all. [Cloud.Close] writes nothing, so that there is no difference
// between closing and being killed. Work that was under way goes on: a cluster
// whose creation takes ten minutes is there ten minutes after it was asked for,
// whether or not anybody kept the directory open.
//
// # Reading it
//
// The calls are in create.go, read.go, update.go and delete.go, and what they have
// in common in call.go. What time does is in settle.go, and when in agenda.go. The
// state is world.go, which knows nothing of disks; the disk is ledger.go, and load.go
// makes a world of it again, or says what is damaged.
package cloud
