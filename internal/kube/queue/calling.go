package queue

import "context"

type callingKey struct{}

// Calling records that the reconcile of a context waits for an external system until the returned function is called.
// Such a call may hang until its timeout, and tenants choose some of these systems, so calls have limits of their own.
func Calling(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(callingKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}

// WithCalling returns a context for Calling: it calls begin, and the caller of Calling its result.
func WithCalling(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, callingKey{}, begin)
}
