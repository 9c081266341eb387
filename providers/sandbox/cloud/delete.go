package cloud

import "time"

// DeleteRequest asks for a resource to be deleted.
type DeleteRequest struct {
	Key Key
	// IfMatch is the version that the resource must have; "" is any.
	IfMatch string
	// Token is as in [CreateRequest].
	Token string
}

// Delete begins to delete a resource that is ACTIVE or has FAILED, and answers with the
// operation that does. One that is being deleted answers with the operation that is at
// it already.
//
// Errors: NotFound; IdempotencyMismatch; PreconditionFailed; InvalidState, while it is
// created or updated; DependencyViolation, if others refer to it or it holds objects;
// InvalidParameter, for a token that is too long; and what faults answer.
func (c *Cloud) Delete(r DeleteRequest) (Operation, error) {
	return c.change(request{Verb: VerbDelete, Key: r.Key, IfMatch: r.IfMatch, Token: r.Token}, nil)
}

func (w *world) remove(q request, f Fault, now time.Time) (job, error) {
	r, err := w.find(q.Key)
	if err != nil {
		return job{}, err
	}
	if r.State == Deleting && (q.IfMatch == "" || q.IfMatch == r.version()) {
		return w.operations.rows[jobID(r.Operation)], nil
	}
	if err := r.ready(q.IfMatch); err != nil {
		return job{}, err
	}
	if err := w.unused(r); err != nil {
		return job{}, err
	}
	return w.start(r, VerbDelete, f, now), nil
}

// unused refuses to delete what somebody needs.
func (w *world) unused(r row) error {
	if users := w.users(r.Key); len(users) > 0 {
		return violates(users, "%s is used", r.Key)
	}
	if n := r.Outputs.Objects; n > 0 {
		return refuse(DependencyViolation, "%s is not empty: it holds %d objects", r.Key, n)
	}
	return nil
}
