package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/conformance"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// api is a minimal external API.
type api struct {
	clock *conformance.Clock
	now   func() time.Time
	// createTime is how long a creation takes.
	createTime time.Duration
	caps       external.Caps
	things     map[string]*thing
	tokens     map[string]string
	// generated counts generated identities and texts.
	generated int
	// isDown: calls fail without an effect; losesAnswers: they fail with it.
	isDown, losesAnswers bool
}

type thing struct {
	size, mark, owner string
	readyAt           time.Time
}

var errDown, errNotFound, errExists = errors.New("down"), errors.New("not found"), errors.New("exists already")

func newAPI(caps external.Caps) *api {
	clock := conformance.NewClock()
	return &api{clock: clock, now: clock.Now, createTime: 3 * time.Second, caps: caps, things: map[string]*thing{}, tokens: map[string]string{}}
}

func (a *api) answer(ctx context.Context, err error) error {
	if ctx.Err() != nil || a.losesAnswers {
		return errDown
	}
	return err
}

func (a *api) get(ctx context.Context, name string) (thing, error) {
	if a.isDown || ctx.Err() != nil {
		return thing{}, errDown
	}
	if t, ok := a.things[name]; ok {
		return *t, a.answer(ctx, nil)
	}
	return thing{}, a.answer(ctx, errNotFound)
}

func (a *api) list(ctx context.Context, mark string) ([]string, error) {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.things)) {
		if a.things[name].mark == mark || mark == "" {
			out = append(out, name)
		}
	}
	if a.isDown {
		return nil, errDown
	}
	return out, a.answer(ctx, nil)
}

func (a *api) create(ctx context.Context, name, token string, t thing) (string, error) {
	if a.isDown || ctx.Err() != nil {
		return "", errDown
	}
	if known, ok := a.tokens[token]; ok && token != "" && a.caps.TokenTTL > 0 {
		return known, a.answer(ctx, nil)
	}
	a.generated++
	if a.caps.Naming == external.ProviderAssigned {
		name = fmt.Sprintf("id-%d", a.generated)
	}
	if a.things[name] != nil {
		return "", a.answer(ctx, errExists)
	}
	t.readyAt = a.now().Add(a.createTime)
	a.things[name], a.tokens[token] = &t, name
	return name, a.answer(ctx, nil)
}

func (a *api) update(ctx context.Context, name, size string) error {
	if a.isDown || ctx.Err() != nil {
		return errDown
	}
	if a.things[name] == nil {
		return a.answer(ctx, errNotFound)
	}
	a.things[name].size = size
	return a.answer(ctx, nil)
}

func (a *api) delete(ctx context.Context, name string) error {
	if a.isDown || ctx.Err() != nil {
		return errDown
	}
	if a.things[name] == nil {
		return a.answer(ctx, errNotFound)
	}
	delete(a.things, name)
	return a.answer(ctx, nil)
}

func (a *api) fault(name string, flag *bool) conformance.Fault {
	return conformance.Fault{Name: name, Inject: func() func() {
		*flag = true
		return func() { *flag = false }
	}}
}

// dump is the whole state.
func (a *api) dump() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(a.things)) {
		text += fmt.Sprintf("%s: %s %s\n", name, a.things[name].size, a.things[name].mark)
	}
	return text
}
