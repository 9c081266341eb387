// Package conformance tries a provider's client as the runtime uses it, in memory and
// without an API server: a managed resource is created, changed and deleted under every
// legal set of management policies, while the process dies after every step, and in
// every call that changes something in each of three ways: the call is never sent, its
// answer is lost, or it arrives late. What decides and what asks the client is the
// runtime's own code.
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
// A client that conforms keeps each [Promise]. One that doesn't is told which promise is
// broken, when, and after which calls.
//
// What the kit doesn't try: the API server (defaults, validation, conflicts), references
// between managed resources, which are resolved before a client is connected, and
// concurrent use, since a client is used by one goroutine.
package conformance
