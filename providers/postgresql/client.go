package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// kind is what is different from kind to kind.
type kind[M managed.Object] struct {
	typ string
	// spec is what all kinds have in their specs.
	spec func(M) *resource.Spec
	// place is the database that the thing is in, empty for what belongs to the
	// server, and its name.
	place func(M) (database, name string, err error)
	// look looks at the thing of a name, and says all that follows.
	look func(context.Context, *visit, M, string) (*sight, error)
}

// sight is what was seen of a thing, and what follows from it for its managed
// resource.
type sight struct {
	presence external.Presence
	// comment is what the server tells of it; what tells nothing is marked.
	comment string
	at      map[string]any
	// waits says what has to happen first, in a word; nothing is changed before.
	waits string
	// unready says why it can't be used yet.
	unready    string
	connection map[string][]byte

	create, remove request
	// changes make it what it is to be, and differs tells of them. Stuck says what
	// can't be changed.
	changes request
	differs []string
	stuck   string
}

// client talks to a server about one managed resource.
type client[M managed.Object] struct {
	kind[M]
	*visit
	last *sight
}

// Identify names the place by server, database and name.
func (c *client[M]) Identify(m M) (external.Key, error) {
	database, name, err := c.place(m)
	if err != nil {
		return external.Key{}, err
	}
	key := external.Key{Scope: c.server.scope(), Type: c.typ, Name: name}
	if database != "" {
		key.Scope = c.server.within(database)
	}
	return key, nil
}

// named is what a thing is called: by the annotation, or else like its managed
// resource.
func named(m managed.Object) string {
	if said := m.GetAnnotations()[resource.ExternalNameAnnotation]; said != "" {
		return said
	}
	return m.GetName()
}

// Observe looks at a thing.
func (c *client[M]) Observe(ctx context.Context, m M, ref external.Ref) (external.Observation, error) {
	s, err := c.look(ctx, c.visit, m, string(ref))
	if err != nil {
		return external.Observation{}, briefError{err}
	}
	if s.comment == "" && s.changes.Mark != "" && c.spec(m).ManagementPolicies.Exclusive() {
		s.differs = append(s.differs, "it carries no mark")
	} else {
		s.changes.Mark = ""
	}
	c.last = s
	return s.observation(ref), nil
}

func (s *sight) observation(ref external.Ref) external.Observation {
	o := external.Observation{Presence: s.presence}
	if s.presence != external.Present {
		return o
	}
	o.Ref, o.Mark, o.AtProvider, o.Connection = ref, markIn(s.comment), s.at, s.connection
	o.UpToDate, o.Ready = external.Yes, external.Yes
	switch {
	case s.waits != "":
		o.UpToDate, o.State = external.CannotTell, s.waits
	case len(s.differs) > 0:
		o.UpToDate, o.Diff = external.No, brief(strings.Join(s.differs, "; "))
	}
	if s.unready != "" {
		o.Ready, o.Message = external.No, s.unready
	}
	return o
}

// Find isn't called: all names are ours to give.
func (c *client[M]) Find(context.Context, M, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("there is nothing to be found by its mark")
}

// Prepare freezes the statements that follow from what was seen last.
func (c *client[M]) Prepare(_ M, verb external.Verb, _ external.Observation) (external.Request, error) {
	s := c.last
	switch {
	case s == nil:
		return nil, errors.New("nothing was looked at before")
	case verb == external.Create:
		return s.create.encode(), nil
	case verb == external.Delete:
		return s.remove.encode(), nil
	case s.stuck != "":
		return nil, errors.New(s.stuck)
	}
	return s.changes.encode(), nil
}

// Begin sends the statements of the intent, as one.
func (c *client[M]) Begin(ctx context.Context, m M, i external.Intent) (external.Op, error) {
	r, err := decode(i.Request)
	if err != nil {
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: err.Error()}}, nil
	}
	made := ""
	if r.Password != "" {
		if made, err = c.verifierFor(m); err != nil {
			return external.Op{Err: &external.OpError{Class: external.Rejected, Message: fmt.Sprintf("set the password: %s", err)}}, nil
		}
	}
	refused := c.call(ctx, r.Database, r.statements(i.Mark, made))
	if refused != nil {
		return external.Op{Err: c.explained(ctx, refused, i)}, nil
	}
	op := external.Op{Done: true}
	if i.Verb == external.Create {
		op.Ref = external.Ref(i.Key.Name)
	}
	return op, nil
}

// verifierFor makes what the server is to store of a role's password.
func (c *client[M]) verifierFor(m M) (string, error) {
	role, ok := any(m).(*v1alpha1.Role)
	if !ok {
		return "", fmt.Errorf("a %s has none", c.typ)
	}
	password, err := toBeSet(c.objects, role)
	if err != nil {
		return "", err
	}
	return newVerifier(password)
}

// Poll isn't called: every call ends with its answer.
func (c *client[M]) Poll(context.Context, M, external.Op) (external.Op, error) {
	return external.Op{Err: &external.OpError{Class: external.Failed, Message: "there is no operation to go on with"}}, nil
}

// Close gives back the connections.
func (c *client[M]) Close() error {
	c.close()
	return nil
}
