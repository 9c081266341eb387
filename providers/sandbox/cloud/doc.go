// Package cloud is a simulated cloud for the demo, for tests and for trying a provider:
// networks, subnets, roles, clusters and buckets, in scopes, with tags, asynchronous
// operations and idempotency tokens. A [Behaviour] for each type configures who names a
// resource, how long a token is recognized, whether resources are found by their tags, how
// far reads lag behind, how long operations take, and when a name can be used again.
//
// [Faulty] decorates a cloud with faults: calls are refused, their answers are lost, they
// arrive late, their operations fail. [Admin] makes out-of-band changes.
//
// The cloud is deterministic and has no goroutines: its state is a function of the calls and
// of the clock, computed at the next call. With a fake clock, a day passes in microseconds.
package cloud
