package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

type kind[M managed.Object] struct {
	typ string
	// spec returns the part of the spec that all kinds have.
	spec func(M) *resource.Spec
	// locate returns the database of the external resource, empty for one of the whole
	// server, and its name.
	locate func(M) (database, name string, err error)
	// needs are what a shared configuration has to allow for an update, adoption what it has to allow for the adoption
	// of an existing resource.
	needs    func(*session, M) []need
	adoption func(M) []need
	// observe reads the external resource of a name, and computes the possible calls.
	observe func(context.Context, *session, M, string) (*observation, error)
}

// observation is the observed state of an external resource, and the calls that follow
// from it and from the managed resource.
type observation struct {
	presence external.Presence
	// comment is the comment on the server. A resource without one gets the mark. mark replaces
	// the mark in it, if it is set.
	comment    string
	oid        int64 // another resource of the same name has another one; 0 for a grant
	mark       *external.Mark
	atProvider map[string]any
	// needs are further ones, of the creation or of what was observed, and adoption the needs of an adoption.
	// adoptionDenied is why the resource must not be adopted; empty if it may.
	needs, adoption []need
	adoptionDenied  string
	// waitsFor is a short text of what has to happen before an update; empty for nothing.
	waitsFor string
	// notReady is why the resource cannot be used yet; empty if it can.
	notReady   string
	connection map[string][]byte

	create, deletion request
	// update has the changes to the desired state, diff describes them. immutable is a
	// difference that cannot be changed.
	update    request
	diff      []string
	immutable string
}

// client implements managed.Client for one managed resource.
type client[M managed.Object] struct {
	kind[M]
	*session
	last *observation
}

// Identify returns a key of server, database, type and name.
func (c *client[M]) Identify(m M) (external.Key, error) {
	database, name, err := c.locate(m)
	if err != nil {
		return external.Key{}, err
	}
	key := external.Key{Scope: c.server.scope(), Type: c.typ, Name: name}
	if database != "" {
		key.Scope = c.server.databaseScope(database)
	}
	return key, nil
}

// It is the name on the server: the annotation, or else metadata.name.
func externalName(m managed.Object) string {
	if name := m.GetAnnotations()[resource.ExternalNameAnnotation]; name != "" {
		return name
	}
	return m.GetName()
}

// Observe reads the external resource.
func (c *client[M]) Observe(ctx context.Context, m M, ref external.Ref) (external.Observation, error) {
	obs, err := c.observeAllowed(ctx, m, string(ref))
	if err != nil {
		return external.Observation{}, truncatedError{err}
	}
	if obs.comment == "" && obs.update.Mark != "" && c.spec(m).ManagementPolicies.Exclusive() {
		obs.diff = append(obs.diff, "there is no mark")
	} else {
		obs.update.Mark = ""
	}
	c.last = obs
	return obs.toExternal(ref), nil
}

// The configuration has to allow what the managed resource specifies. The update of one that is being deleted is not
// made, except for what the deletion itself does.
func (c *client[M]) observeAllowed(ctx context.Context, m M, name string) (*observation, error) {
	needs := c.kind.needs(c.session, m)
	if role, isRole := any(m).(*v1alpha1.Role); m.GetDeletionTimestamp() != nil {
		needs = nil
		if isRole {
			needs = newOwnerNeeds(role.Spec.ForProvider)
		}
	}
	if err := c.checkOnServer(ctx, needs); err != nil {
		return nil, err
	}
	denied, err := c.session.adoptionDenied(ctx, c.adoption(m))
	if err != nil {
		return nil, err
	}
	c.isForeign = denied != ""
	obs, err := c.observe(ctx, c.session, m, name)
	if err != nil {
		return nil, err
	}
	if denied == "" {
		if denied, err = c.session.adoptionDenied(ctx, obs.adoption); err != nil {
			return nil, err
		}
	}
	obs.adoptionDenied = denied
	if m.GetDeletionTimestamp() != nil {
		return obs, nil
	}
	return obs, c.checkOnServer(ctx, obs.needs)
}

func (obs *observation) toExternal(ref external.Ref) external.Observation {
	o := external.Observation{Presence: obs.presence}
	if obs.presence != external.Present {
		return o
	}
	o.Ref, o.Mark, o.AtProvider, o.Connection = ref, parseMark(obs.comment), obs.atProvider, obs.connection
	if obs.mark != nil {
		o.Mark = obs.mark
	}
	if obs.oid != 0 {
		o.Incarnation = strconv.FormatInt(obs.oid, 10)
	}
	o.AdoptionDenied = obs.adoptionDenied
	o.UpToDate, o.Ready = external.Yes, external.Yes
	switch {
	case obs.waitsFor != "":
		o.UpToDate, o.State = external.CannotTell, obs.waitsFor
	case len(obs.diff) > 0:
		o.UpToDate, o.Diff = external.No, truncate(strings.Join(obs.diff, "; "))
	}
	if obs.notReady != "" {
		o.Ready, o.Message = external.No, obs.notReady
	}
	return o
}

// Find is not called, because the caller assigns all names.
func (c *client[M]) Find(context.Context, M, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("finding resources by their mark is not supported")
}

// Prepare returns the statements that follow from the last observation.
func (c *client[M]) Prepare(_ M, verb external.Verb, _ external.Observation) (external.Request, error) {
	obs := c.last
	switch {
	case obs == nil:
		return nil, errors.New("Prepare was called before Observe")
	case verb == external.Create:
		return obs.create.encode(), nil
	case verb == external.Delete:
		return obs.deletion.encode(), nil
	case obs.immutable != "":
		return nil, errors.New(obs.immutable)
	}
	return obs.update.encode(), nil
}

// Begin sends the statements of the intent as one transaction.
func (c *client[M]) Begin(ctx context.Context, m M, i external.Intent) (external.Op, error) {
	r, err := decode(i.Request)
	if err != nil {
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: err.Error()}}, nil
	}
	verifier := ""
	if r.Password != "" {
		if verifier, err = c.verifierFor(m); err != nil {
			return external.Op{Err: &external.OpError{Class: external.Rejected, Message: fmt.Sprintf("set the password: %s", err)}}, nil
		}
	}
	opErr := c.exec(ctx, r.Database, r.statements(i.Mark, verifier))
	if opErr != nil {
		return external.Op{Err: c.explain(ctx, opErr, i)}, nil
	}
	op := external.Op{Done: true}
	if i.Verb == external.Create {
		op.Ref = external.Ref(i.Key.Name)
	}
	return op, nil
}

func (c *client[M]) verifierFor(m M) (string, error) {
	role, ok := any(m).(*v1alpha1.Role)
	if !ok {
		return "", fmt.Errorf("a %s has no password", c.typ)
	}
	password, err := desiredPassword(c.objects, role)
	if err != nil {
		return "", err
	}
	return newVerifier(password)
}

// Poll is not called: an operation is done when Begin returns.
func (c *client[M]) Poll(context.Context, M, external.Op) (external.Op, error) {
	return external.Op{Err: &external.OpError{Class: external.Failed, Message: "there is no operation to poll"}}, nil
}

// Close releases the connections.
func (c *client[M]) Close() error {
	c.close()
	return nil
}
