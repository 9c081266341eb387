package conformance_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const password = "correct-horse"

// client is one that conforms, but for what it breaks.
type client struct {
	api    *api
	breaks string
	polls  map[string]int
}

type object = *managedThing

func kind(a *api, breaks string) managed.Kind {
	return managed.For(managed.Definition[object]{
		Kind: thingKind,
		New:  func() object { return &managedThing{} },
		Caps: func() external.Caps { return a.caps },
		Connect: func(context.Context, managed.Objects, object) (managed.Client[object], error) {
			return &client{a, breaks, map[string]int{}}, nil
		},
	})
}

func size(m object) string { return fmt.Sprint(m.Spec.ForProvider.Public) }

func (c *client) Identify(m object) (external.Key, error) {
	key := external.Key{Scope: "here", Type: "thing"}
	if c.api.caps.Naming == external.ProviderAssigned {
		return key, nil
	}
	key.Name = m.Name
	if said := m.Annotations[resource.ExternalNameAnnotation]; said != "" && c.breaks != "ignores the annotation" {
		key.Name = said
	}
	if c.breaks == "names it anew each time" {
		c.api.made++
		key.Name = fmt.Sprint(key.Name, c.api.made)
	}
	return key, nil
}

func (c *client) Observe(ctx context.Context, m object, ref external.Ref) (external.Observation, error) {
	t, err := c.api.get(ctx, string(ref))
	if c.breaks == "mends what it looks at" && err == nil {
		_ = c.api.update(ctx, string(ref), size(m))
	}
	if c.breaks == "touches the object" {
		m.Status.AtProvider.ID = string(ref)
	}
	switch {
	case errors.Is(err, errNotFound), err != nil && c.breaks == "takes an error for nothing there":
		return external.Observation{Presence: external.Absent}, nil
	case err != nil:
		return external.Observation{}, err
	}
	return c.seen(m, string(ref), t), nil
}

func (c *client) seen(m object, name string, t thing) external.Observation {
	o := external.Observation{Presence: external.Present, Ref: external.Ref(name), Ready: external.Yes, UpToDate: external.No, AtProvider: map[string]any{"id": name}}
	if t.mark != "" && c.api.caps.Marked {
		o.Mark = &external.Mark{ID: t.mark, Owner: t.owner}
	}
	if t.size == size(m) || c.breaks == "is always content" {
		o.UpToDate = external.Yes
	}
	switch c.breaks {
	case "tells of another":
		o.Ref += "-other"
	case "tells an int":
		o.AtProvider["id"] = 7
	case "tells a field that isn't there":
		o.AtProvider["color"] = "green"
	case "chooses what was chosen":
		o.LateInit = map[string]any{"region": "elsewhere"}
	case "tells its password":
		o.Message = "logged in with " + password
	}
	return o
}

func (c *client) Find(ctx context.Context, m object, _ external.Key, mark external.Mark) ([]external.Observation, error) {
	if c.breaks == "finds everything" {
		mark.ID = ""
	}
	names, err := c.api.marked(ctx, mark.ID)
	var out []external.Observation
	for _, name := range names {
		out = append(out, c.seen(m, name, *c.api.things[name]))
	}
	return out, err
}

func (c *client) Prepare(m object, verb external.Verb, _ external.Observation) (external.Request, error) {
	switch c.breaks {
	case "freezes its password":
		return external.Request(size(m) + password), nil
	case "freezes the count of its calls":
		c.api.made++
		return external.Request(fmt.Sprint(c.api.made)), nil
	case "asks while it prepares":
		if _, err := c.api.get(context.Background(), m.Name); errors.Is(err, errDown) {
			return nil, err
		}
	}
	return external.Request(size(m)), nil
}

func (c *client) Begin(ctx context.Context, m object, i external.Intent) (external.Op, error) {
	op := external.Op{Done: true, Ref: i.Ref}
	var err error
	switch i.Verb {
	case external.Create:
		var name string
		name, err = c.create(ctx, m, i)
		op = external.Op{Resume: name, Ref: external.Ref(name)}
	case external.Update:
		wanted := string(i.Request)
		if c.breaks == "asks for what the object says by now" {
			wanted = size(m)
		}
		err = c.api.update(ctx, string(i.Ref), wanted)
	case external.Delete:
		if c.breaks == "never deletes" {
			break
		}
		if err = c.api.remove(ctx, string(i.Ref)); errors.Is(err, errNotFound) {
			err = nil
		}
	}
	switch {
	case errors.Is(err, errExists), errors.Is(err, errNotFound), err != nil && c.breaks == "calls what it lost rejected":
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: err.Error()}}, nil
	case err != nil:
		return external.Op{}, err
	}
	return op, nil
}

func (c *client) create(ctx context.Context, m object, i external.Intent) (string, error) {
	t := thing{size: string(i.Request), mark: i.Mark.ID, owner: i.Mark.Owner}
	token := i.Token
	switch c.breaks {
	case "creates two":
		_, _ = c.api.create(ctx, i.Key.Name+"-two", token+"-two", t)
	case "ignores tokens":
		token = ""
	case "ignores marks":
		t.mark = ""
	case "spoils the request":
		i.Request[0] = 'x'
	}
	return c.api.create(ctx, i.Key.Name, token, t)
}

func (c *client) Poll(ctx context.Context, _ object, op external.Op) (external.Op, error) {
	t, err := c.api.get(ctx, op.Resume)
	if err != nil {
		return external.Op{}, err
	}
	if t.readyAt.After(c.api.now()) && c.breaks != "never ends" || c.breaks == "never ends" {
		return external.Op{Resume: op.Resume, Ref: op.Ref}, nil
	}
	if c.polls[op.Resume]++; c.breaks == "forgets what has ended" && c.polls[op.Resume] > 1 {
		return external.Op{Err: &external.OpError{Class: external.Failed, Message: "forgotten"}}, nil
	}
	return external.Op{Done: true, Ref: external.Ref(op.Resume)}, nil
}
