package watch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/object"
)

// deed is one thing that somebody does to a hub, as data: it is drawn outside of
// the bubble in which it is done.
type deed struct {
	what string
	who  int
	kind int
	to   int
}

var deeds = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
	return deed{
		what: rapid.SampledFrom([]string{
			"want", "want", "want", "want", "commit", "commit", "discard", "forget", "forget the kind", "serve", "stop serving",
			"arrive", "alter", "delete", "install", "uninstall", "forbid", "allow", "grant", "write", "wait", "wait long",
		}).Draw(t, "what"),
		who:  rapid.IntRange(0, 2).Draw(t, "who"),
		kind: rapid.IntRange(0, 1).Draw(t, "kind"),
		to:   rapid.IntRange(0, 6).Draw(t, "to"),
	}
}), 10, 80)

// books is a hub with everybody who has to do with it.
type books struct {
	*stage
	kinds    [2]schema.GroupVersionKind
	leases   [3]*Lease
	servings []*Serving
}

var roleKind = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}

func (b *books) target(kind, to int) Target {
	gvk := b.kinds[kind]
	app, _ := labels.Parse("app=db")
	return [...]Target{
		Child(gvk, "a", "x"), ChildrenOf(gvk, "o"), ChildrenOf(gvk, "p"), Object(gvk, "a", "x"), Object(gvk, "b", "y"),
		Matching(gvk, "", app), Matching(gvk, "", labels.Everything()),
	}[to]
}

func (b *books) do(d deed) {
	sub := Subscriber{object.Key{Group: "kro.run", Kind: fmt.Sprint("Kind", d.who%2), Name: fmt.Sprint(d.who)}}
	gvk := b.kinds[d.kind]
	forbid := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no role"))
	}
	switch d.what {
	case "want":
		if b.leases[d.who] == nil {
			b.leases[d.who] = b.Begin(sub)
		}
		b.leases[d.who].Want(b.target(d.kind, d.to))
	case "commit", "discard":
		if l := b.leases[d.who]; l != nil && d.what == "commit" {
			l.Commit()
		} else if l != nil {
			l.Discard()
		}
		b.leases[d.who] = nil
	case "forget":
		b.Forget(sub)
	case "forget the kind":
		b.ForgetKind(sub.GroupKind())
	case "serve":
		b.servings = append(b.servings, b.Serve(gvk, func(object.Key, Cause) {}))
	case "stop serving":
		if n := len(b.servings); n > 0 {
			b.servings[n-1].Stop()
			b.servings = b.servings[:n-1]
		}
	case "arrive", "alter", "delete":
		b.KindChanged(gvk.GroupKind(), map[string]KindChange{"arrive": KindAdded, "alter": KindUpdated, "delete": KindDeleted}[d.what])
	case "install":
		b.install(gvk, newScript(made(gvk, "a/x", 1, partOf, "o", "app", "db"), made(gvk, "b/y", 2, partOf, "p")))
		b.KindChanged(gvk.GroupKind(), KindAdded)
	case "uninstall":
		b.install(gvk, nil)
		b.KindChanged(gvk.GroupKind(), KindDeleted)
	case "forbid", "allow":
		if sc := b.script(gvk); sc != nil && d.what == "forbid" {
			sc.fail(forbid)
		} else if sc != nil {
			sc.fail(nil)
		}
	case "grant":
		b.script(roleKind).put(made(roleKind, "/x", 0))
	case "write":
		done := b.Writing(gvk, "a", "x", sub)
		b.Record(made(gvk, "a/x", 1000, partOf, "o"), sub)
		done()
	case "wait":
		pass(time.Second)
	case "wait long":
		pass(2 * time.Minute)
	}
	synctest.Wait()
}

// check holds the hub's counts against who holds what.
func (b *books) check() error {
	b.Hub.mu.Lock()
	defer b.Hub.mu.Unlock()
	wanted, guests := map[*actor]int{}, map[*actor]int{}
	subscribed := map[*actor]map[*listener]int{}
	routes := map[schema.GroupVersionKind]int{}
	hold := func(l *listener, held holding) {
		for t, a := range held {
			wanted[a]++
			if t.selection != a.selection {
				guests[a]++
			}
			if subscribed[a] == nil {
				subscribed[a] = map[*listener]int{}
			}
			subscribed[a][l]++
			routes[a.gvk]++
		}
	}
	for _, sub := range b.subs {
		hold(sub.listener, sub.held)
	}
	for _, l := range b.leases {
		if l != nil {
			hold(l.sub.listener, l.wanted)
		}
	}
	for gvk, k := range b.Hub.kinds {
		for s, a := range k.actors {
			n := len(a.served())
			if a.wanted != wanted[a]+n || a.guests != guests[a] {
				return fmt.Errorf("%s (%s) counts %d wanted and %d guests, and has %d, %d", gvk.Kind, s, a.wanted, a.guests, wanted[a]+n, guests[a])
			}
			if got := a.subscribers.len(); got != len(subscribed[a]) {
				return fmt.Errorf("%s (%s) has %d subscribers, want %d", gvk.Kind, s, got, len(subscribed[a]))
			}
			if a.wanted == 0 && a.grace == nil {
				return fmt.Errorf("%s (%s) is wanted by nobody and stays", gvk.Kind, s)
			}
			delete(wanted, a)
		}
		if got := k.router.index.total(); got != routes[gvk] {
			return fmt.Errorf("%s routes %d interests, want %d", gvk.Kind, got, routes[gvk])
		}
	}
	for a := range wanted {
		return fmt.Errorf("%s (%s) is held and has left", a.gvk.Kind, a.selection)
	}
	return nil
}

// total counts what the index was told to add and not yet to remove.
func (x *index[S]) total() int {
	n := 0
	count := func(m *members[S]) {
		for _, one := range m.list {
			n += one.times
		}
		for _, times := range m.many {
			n += times
		}
	}
	for _, m := range x.names {
		count(m)
	}
	for _, m := range x.owners {
		count(m)
	}
	for _, g := range x.groups {
		count(&g.members)
	}
	return n
}

func TestTheHubKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := deeds.Draw(rt, "deeds")
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			b := &books{stage: newStage(scripts{roleKind: newScript()})}
			for i := range b.kinds {
				b.kinds[i] = schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: fmt.Sprint("Leaf", i)}
			}
			b.world.Rights = []schema.GroupVersionKind{roleKind}
			wrong = b.play(t, all)
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// play does all deeds, and then ends everything: nothing may be left.
func (b *books) play(t *testing.T, all []deed) error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- b.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for i, d := range all {
		b.do(d)
		if err := b.check(); err != nil {
			return fmt.Errorf("after deed %d (%+v): %w", i, d, err)
		}
	}
	for _, l := range b.leases {
		if l != nil {
			l.Discard()
		}
	}
	b.leases = [3]*Lease{}
	for _, kind := range []string{"Kind0", "Kind1"} {
		b.ForgetKind(schema.GroupKind{Group: "kro.run", Kind: kind})
	}
	for _, s := range b.servings {
		s.Stop()
	}
	pass(time.Hour)
	if left := b.Stats(); len(left) > 0 || len(b.subs) > 0 || b.rights.count != 0 {
		return fmt.Errorf("left are %d subscriptions, %d forbidden, and %+v", len(b.subs), b.rights.count, left)
	}
	return nil
}
