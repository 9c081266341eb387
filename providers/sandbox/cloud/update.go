package cloud

import "time"

// UpdateRequest asks for a resource to be changed.
type UpdateRequest struct {
	Key Key
	// IfMatch is the version that the resource must have; "" is any.
	IfMatch string
	// Properties are what all of them shall be; nil leaves them.
	Properties Properties
	// Tags are what all of them shall be; nil leaves them, and an empty map removes them.
	Tags map[string]string
	// Token is as in [CreateRequest].
	Token string
}

// Update begins to change a resource that is ACTIVE or has FAILED, and answers with the
// operation that does. Tags are set first; the properties come into force when the
// operation succeeds. A failed create is repaired by an update.
//
// Errors: InvalidParameter, also for what can't be changed; IdempotencyMismatch;
// NotFound, for the resource or what the properties refer to; PreconditionFailed;
// InvalidState, if an operation is running or what the properties newly refer to is not
// ACTIVE or UPDATING; DependencyViolation, if others need the properties as they are;
// and what faults answer.
func (c *Cloud) Update(r UpdateRequest) (Operation, error) {
	properties, err := packed(r.Properties)
	return c.change(request{
		Verb: VerbUpdate, Key: r.Key, IfMatch: r.IfMatch, Token: r.Token,
		Tags: copied(r.Tags), Retags: r.Tags != nil, Properties: properties,
	}, err)
}

func (w *world) update(q request, f Fault, now time.Time) (job, error) {
	r, err := w.find(q.Key)
	if err != nil {
		return job{}, err
	}
	if err := w.checkUpdate(q, r); err != nil {
		return job{}, err
	}
	if err := r.ready(q.IfMatch); err != nil {
		return job{}, err
	}
	next := q.Properties
	if next.IsZero() {
		next = r.Properties
	}
	if err := w.fits(r.Key, next, r.Properties); err != nil {
		return job{}, err
	}
	r.Next = next
	if q.Retags {
		r.Tags = q.Tags
	}
	return w.start(r, VerbUpdate, f, now), nil
}

// ready refuses what works on a version that isn't the current one, or on a resource
// that is being worked on.
func (r row) ready(version string) error {
	if version != "" && version != r.version() {
		return refuse(PreconditionFailed, "%s is at version %s, not %s", r.Key, r.version(), version)
	}
	if r.State.busy() {
		return refuse(InvalidState, "%s is %s", r.Key, r.State)
	}
	return nil
}
