// Package cloud is a small cloud for the demo, for tests and for trying a provider:
// networks, subnets, roles, clusters and buckets, in scopes, with tags, asynchronous
// operations and idempotency tokens. A [Behaviour] for each type says what makes a
// cloud hard to drive: who names a resource, how long a token is honoured, whether
// resources are found by their tags, how far reads lag behind, how long work takes,
// when a name is free again.
//
// [Faulty] decorates a cloud with trouble: calls are refused, their answers are lost,
// they arrive late, their operations fail. [Admin] does what somebody else does,
// behind the back of those who make the calls.
//
// Nothing is left to chance, and there are no goroutines: what happens by itself is a
// function of the clock, evaluated when somebody looks. A fake clock drives a day of
// the cloud's life in microseconds.
package cloud
