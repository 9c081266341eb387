package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// audited asks the client something that isn't counted.
func (l *life) audited(ctx context.Context, o *unstructured.Unstructured, ask func(port.Session) error) error {
	session, err := l.connect(ctx, o)
	if err != nil {
		return err
	}
	defer session.Close()
	return ask(session)
}

// places are the identities under which there may be a resource.
func (l *life) places(session port.Session) []external.Ref {
	all := slices.Clone(l.refs)
	if key, err := session.Identify(); err == nil && key.Name != "" && !slices.Contains(all, external.Ref(key.Name)) {
		all = append(all, external.Ref(key.Name))
	}
	return all
}

// alive is how many external resources there are, for all that can be told.
func (l *life) alive(ctx context.Context) int {
	if l.count != nil {
		n, err := l.count(ctx, l.object)
		if err != nil {
			l.fails(SuiteMakesSense, "Count: %v", err)
		}
		return n - l.before
	}
	n := 0
	err := l.audited(ctx, l.object, func(session port.Session) error {
		for _, ref := range l.places(session) {
			o, err := session.Observe(ctx, ref)
			if err != nil {
				return err
			}
			if o.Presence == external.Present || o.Presence == external.Deleting {
				n++
			}
		}
		_, own := l.own()
		if !l.port.Caps().Findable || own.spec == nil {
			return nil
		}
		key, err := session.Identify()
		if err != nil {
			return err
		}
		found, err := session.Find(ctx, key, external.Mark{ID: own.spec.Mark, Owner: l.owner()})
		n = max(n, len(found))
		return err
	})
	if err != nil {
		l.fails(SuiteMakesSense, "how many there are can't be told: %v", err)
	}
	return n
}

// print is what the external API holds, as far as that can be told.
func (l *life) print(ctx context.Context) string {
	ctx = context.WithoutCancel(ctx)
	if l.snapshot != nil {
		text, err := l.snapshot(ctx)
		if err != nil {
			l.fails(SuiteMakesSense, "Snapshot: %v", err)
		}
		return text
	}
	var lines []string
	if l.count != nil {
		n, _ := l.count(ctx, l.object) // a failure is told where it is counted
		lines = append(lines, fmt.Sprintf("%d of them", n))
	}
	_ = l.audited(ctx, l.object, func(session port.Session) error {
		for _, ref := range l.places(session) {
			o, err := session.Observe(ctx, ref)
			if l.madeUp {
				raw, _ := json.Marshal(o.AtProvider)
				lines = append(lines, fmt.Sprintf("%q: %s, ready %d, %s", ref, seen(o, err), o.Ready, raw))
			} else {
				lines = append(lines, fmt.Sprintf("%q: %s %d %v", ref, o.Presence, o.UpToDate, err))
			}
		}
		return nil
	})
	return strings.Join(lines, "\n")
}

// observe looks at a resource for an object, beside the life.
func (l *life) observe(ctx context.Context, o *unstructured.Unstructured, ref external.Ref) (out external.Observation, err error) {
	err = l.audited(ctx, o, func(session port.Session) error {
		out, err = session.Observe(ctx, ref)
		return err
	})
	return out, err
}

// clear takes away what the life has left.
func (l *life) clear(ctx context.Context) {
	l.calm(ctx)
	_ = l.audited(ctx, l.object, func(session port.Session) error {
		for _, ref := range l.places(session) {
			for range 5 {
				o, err := session.Observe(ctx, ref)
				if err != nil || o.Presence != external.Present && o.Presence != external.Deleting {
					break
				}
				if o.Presence == external.Present {
					l.destroy(ctx, session, o, ref)
				}
				l.elapse(ctx, max(someTime, l.port.Caps().Settle))
			}
		}
		return nil
	})
	l.elapse(ctx, l.port.Caps().Reuse)
}

func (l *life) destroy(ctx context.Context, session port.Session, o external.Observation, ref external.Ref) {
	request, err := session.Prepare(external.Delete, o)
	if err != nil {
		return
	}
	key, _ := session.Identify()
	i := external.Intent{Verb: external.Delete, Attempt: 1, Token: l.world.text("clear"), Key: key, Ref: ref, Request: request}
	if o.Mark != nil {
		i.Mark = *o.Mark
	}
	_, _ = l.ended(ctx, session, i)
}
