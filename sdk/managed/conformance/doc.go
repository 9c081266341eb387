// Package conformance tests a provider's client in memory, without an API server. It runs the state machine of the
// runtime and the code that calls the client. A managed resource is created, changed and deleted under every valid set
// of management policies, and the process crashes after every step. For a call that changes something there are three
// crashes: before the call is sent, after it has returned, and before the call arrives, which it does later. See
// docs/design/0007-managed-resources.md.
//
//	func TestConformance(t *testing.T) {
//		clock := conformance.NewClock()
//		api := newFakeAPI(clock.Now)
//		conformance.Run(t, conformance.Suite[*v1alpha1.Thing]{
//			Kind:   func() managed.Kind { return provider.Things(api) },
//			New:    func(name string) *v1alpha1.Thing { ... },
//			Change: func(m *v1alpha1.Thing) { m.Spec.ForProvider.Size++ },
//			Clock:  clock,
//		})
//	}
//
// A conforming client keeps each [Promise]. A [Finding] names the promise that is broken, the scenario, and the calls
// until then.
//
// The tests do not cover the API server (defaults, validation, conflicts), references between managed resources, which
// are resolved before a client is connected, and concurrent use, because a client is used by one goroutine.
package conformance
