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

// operation is one call of a hub, as data: it is drawn outside of the synctest bubble in which it
// is made.
type operation struct {
	what       string
	subscriber int
	kind       int
	to         int
}

var operations = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation {
	return operation{
		what: rapid.SampledFrom([]string{
			"want", "want", "want", "want", "commit", "commit", "discard", "forget", "forget the kind", "serve", "stop kindWatch",
			"arrive", "alter", "delete", "install", "uninstall", "forbid", "allow", "grant", "write", "wait", "wait long",
		}).Draw(t, "what"),
		subscriber: rapid.IntRange(0, 2).Draw(t, "subscriber"),
		kind:       rapid.IntRange(0, 1).Draw(t, "kind"),
		to:         rapid.IntRange(0, 9).Draw(t, "to"),
	}
}), 10, 80)

// modelledHub is a hub with its subscribers and the model of its counts.
type modelledHub struct {
	*scriptedHub
	kinds       [2]schema.GroupVersionKind
	leases      [3]*Lease
	kindWatches []*KindWatch
}

var roleKind = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}

func (b *modelledHub) target(kind, to int) Target {
	gvk := b.kinds[kind]
	app, _ := labels.Parse("app=db")
	return [...]Target{
		Child(gvk, "a", "x"), ChildrenOf(gvk, "o"), ChildrenOf(gvk, "p"), Object(gvk, "a", "x"), Object(gvk, "b", "y"),
		Matching(gvk, "", app), Matching(gvk, "", labels.Everything()),
		ChildrenIn(gvk, "a", "o"), ChildrenIn(gvk, "a", "p"), ChildrenIn(gvk, "b", "o"),
	}[to]
}

func (b *modelledHub) do(d operation) {
	sub := Subscriber{object.Key{Group: "kro.run", Kind: fmt.Sprint("Kind", d.subscriber%2), Name: fmt.Sprint(d.subscriber)}}
	gvk := b.kinds[d.kind]
	forbid := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no role"))
	}
	switch d.what {
	case "want":
		if b.leases[d.subscriber] == nil {
			b.leases[d.subscriber] = b.Begin(sub)
		}
		b.leases[d.subscriber].Watch(b.target(d.kind, d.to))
	case "commit", "discard":
		if l := b.leases[d.subscriber]; l != nil && d.what == "commit" {
			l.Commit()
		} else if l != nil {
			l.Discard()
		}
		b.leases[d.subscriber] = nil
	case "forget":
		b.Forget(sub)
	case "forget the kind":
		b.ForgetKind(sub.GroupKind())
	case "serve":
		b.kindWatches = append(b.kindWatches, b.WatchKind(gvk, func(object.Key, Cause) {}))
	case "stop kindWatch":
		if n := len(b.kindWatches); n > 0 {
			b.kindWatches[n-1].Stop()
			b.kindWatches = b.kindWatches[:n-1]
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
		b.Record(made(gvk, "a/x", 1000, partOf, "o"), sub)
	case "wait":
		pass(time.Second)
	case "wait long":
		pass(2 * time.Minute)
	}
	synctest.Wait()
}

// check compares the counts of the hub with the model.
func (b *modelledHub) check() error {
	b.Hub.mu.Lock()
	defer b.Hub.mu.Unlock()
	wanted, narrower := map[*actor]int{}, map[*actor]int{}
	subscribed := map[*actor]map[*listener]int{}
	routes := map[schema.GroupVersionKind]int{}
	hold := func(l *listener, held targetSet) {
		for t, i := range held {
			a := i.actor
			wanted[a]++
			if t.selection != a.selection {
				narrower[a]++
			}
			if subscribed[a] == nil {
				subscribed[a] = map[*listener]int{}
			}
			subscribed[a][l]++
			routes[a.gvk]++
		}
	}
	for _, sub := range b.subs {
		hold(sub.listener, sub.committed)
	}
	for _, l := range b.leases {
		if l != nil {
			hold(l.sub.listener, l.wanted)
		}
	}
	for gvk, k := range b.Hub.kinds {
		for a := range k.actors.each() {
			s := a.selection
			n := len(a.kindWatches())
			if a.count != wanted[a]+n || a.narrower != narrower[a] {
				return fmt.Errorf("%s (%s) counts %d interests and %d narrower ones, and has %d, %d", gvk.Kind, s, a.count, a.narrower, wanted[a]+n, narrower[a])
			}
			if got := a.subscribers.len(); got != len(subscribed[a]) {
				return fmt.Errorf("%s (%s) has %d subscribers, want %d", gvk.Kind, s, got, len(subscribed[a]))
			}
			if a.count == 0 && a.grace == nil {
				return fmt.Errorf("%s (%s) has no interest and stays", gvk.Kind, s)
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

// total counts the interests that were added to the index and not removed.
func (x *index[S]) total() int {
	n := 0
	count := func(m *countedSet[S]) {
		for _, one := range m.list {
			n += one.count
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

func TestHubCountsAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := operations.Draw(rt, "operations")
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			b := &modelledHub{scriptedHub: newScriptedHub(scripts{roleKind: newScript()})}
			for i := range b.kinds {
				b.kinds[i] = schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: fmt.Sprint("Leaf", i)}
			}
			b.env.PermissionKinds = []schema.GroupVersionKind{roleKind}
			wrong = b.play(t, all)
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// play makes all operations, and then ends all interests: the hub must be empty.
func (b *modelledHub) play(t *testing.T, all []operation) error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- b.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for i, d := range all {
		b.do(d)
		if err := b.check(); err != nil {
			return fmt.Errorf("after operation %d (%+v): %w", i, d, err)
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
	for _, s := range b.kindWatches {
		s.Stop()
	}
	pass(time.Hour)
	if left := b.Stats(); len(left) > 0 || len(b.subs) > 0 || b.permissionWatcher.count != 0 {
		return fmt.Errorf("left are %d subscriptions, %d forbidden, and %+v", len(b.subs), b.permissionWatcher.count, left)
	}
	return nil
}
