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

// client conforms, except for one bug.
type client struct {
	api   *api
	bug   string
	polls map[string]int
}

type object = *managedThing

func kind(a *api, bug string) managed.Kind {
	return managed.For(managed.Definition[object]{
		Kind: thingKind,
		New:  func() object { return &managedThing{} },
		Caps: func() external.Caps { return a.caps },
		Connect: func(context.Context, managed.Objects, object) (managed.Client[object], error) {
			return &client{a, bug, map[string]int{}}, nil
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
	if annotation := m.Annotations[resource.ExternalNameAnnotation]; annotation != "" && c.bug != "ignores the annotation" {
		key.Name = annotation
	}
	if c.bug == "returns another name each time" {
		c.api.generated++
		key.Name = fmt.Sprint(key.Name, c.api.generated)
	}
	return key, nil
}

func (c *client) Observe(ctx context.Context, m object, ref external.Ref) (external.Observation, error) {
	t, err := c.api.get(ctx, string(ref))
	if c.bug == "updates in Observe" && err == nil {
		_ = c.api.update(ctx, string(ref), size(m))
	}
	if c.bug == "modifies the object" {
		m.Status.AtProvider.ID = string(ref)
	}
	switch {
	case errors.Is(err, errNotFound), err != nil && c.bug == "returns Absent for an error":
		return external.Observation{Presence: external.Absent}, nil
	case err != nil:
		return external.Observation{}, err
	}
	return c.observation(m, string(ref), t), nil
}

func (c *client) observation(m object, name string, t thing) external.Observation {
	o := external.Observation{Presence: external.Present, Ref: external.Ref(name), Ready: external.Yes, UpToDate: external.No, AtProvider: map[string]any{"id": name}}
	if t.mark != "" && c.api.caps.Marked {
		o.Mark = &external.Mark{ID: t.mark, Owner: t.owner}
	}
	if t.size == size(m) || c.bug == "always returns up to date" {
		o.UpToDate = external.Yes
	}
	switch c.bug {
	case "returns another identity":
		o.Ref += "-other"
	case "returns an int":
		o.AtProvider["id"] = 7
	case "returns an unknown field":
		o.AtProvider["color"] = "green"
	case "late-initializes a set field":
		o.LateInit = map[string]any{"region": "elsewhere"}
	case "returns its password in a message":
		o.Message = "logged in with " + password
	}
	return o
}

func (c *client) Find(ctx context.Context, m object, _ external.Key, mark external.Mark) ([]external.Observation, error) {
	if c.bug == "finds everything" {
		mark.ID = ""
	}
	names, err := c.api.list(ctx, mark.ID)
	var out []external.Observation
	for _, name := range names {
		out = append(out, c.observation(m, name, *c.api.things[name]))
	}
	return out, err
}

func (c *client) Prepare(m object, verb external.Verb, _ external.Observation) (external.Request, error) {
	switch c.bug {
	case "puts its password into the request":
		return external.Request(size(m) + password), nil
	case "prepares another request each time":
		c.api.generated++
		return external.Request(fmt.Sprint(c.api.generated)), nil
	case "makes a call in Prepare":
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
		if c.bug == "updates to the current object" {
			wanted = size(m)
		}
		err = c.api.update(ctx, string(i.Ref), wanted)
	case external.Delete:
		if c.bug == "never deletes" {
			break
		}
		if err = c.api.delete(ctx, string(i.Ref)); errors.Is(err, errNotFound) {
			err = nil
		}
	}
	switch {
	case errors.Is(err, errExists), errors.Is(err, errNotFound), err != nil && c.bug == "returns Rejected for a lost answer":
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: err.Error()}}, nil
	case err != nil:
		return external.Op{}, err
	}
	return op, nil
}

func (c *client) create(ctx context.Context, m object, i external.Intent) (string, error) {
	t := thing{size: string(i.Request), mark: i.Mark.ID, owner: i.Mark.Owner}
	token := i.Token
	switch c.bug {
	case "creates two":
		_, _ = c.api.create(ctx, i.Key.Name+"-two", token+"-two", t)
	case "ignores tokens":
		token = ""
	case "ignores marks":
		t.mark = ""
	case "modifies the request":
		i.Request[0] = 'x'
	}
	return c.api.create(ctx, i.Key.Name, token, t)
}

func (c *client) Poll(ctx context.Context, _ object, op external.Op) (external.Op, error) {
	t, err := c.api.get(ctx, op.Resume)
	if err != nil {
		return external.Op{}, err
	}
	if t.readyAt.After(c.api.now()) && c.bug != "never completes an operation" || c.bug == "never completes an operation" {
		return external.Op{Resume: op.Resume, Ref: op.Ref}, nil
	}
	if c.polls[op.Resume]++; c.bug == "forgets completed operations" && c.polls[op.Resume] > 1 {
		return external.Op{Err: &external.OpError{Class: external.Failed, Message: "forgotten"}}, nil
	}
	return external.Op{Done: true, Ref: external.Ref(op.Resume)}, nil
}
