package membership

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/shard"
)

func TestEarliest(t *testing.T) {
	first := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	second := first.Add(time.Second)
	cases := map[string]struct {
		times []time.Time
		want  time.Time
	}{
		"of no times, none":           {nil, time.Time{}},
		"of zero times, none":         {[]time.Time{{}, {}}, time.Time{}},
		"the first in any order":      {[]time.Time{second, first}, first},
		"zero times do not count":     {[]time.Time{{}, second, {}}, second},
		"one that occurs twice":       {[]time.Time{first, first}, first},
		"a zero time after the first": {[]time.Time{first, second, {}}, first},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := earliest(c.times...); !got.Equal(c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// leases are the Leases of the API server. Nothing watches them.
type leases struct {
	coordination.LeaseInterface
	version int
	byName  map[string]*coordinationv1.Lease
	deleted []string
}

func (l *leases) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if found := l.byName[name]; found != nil {
		return found.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
}

func (l *leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.Update(ctx, lease, metav1.UpdateOptions{})
}

func (l *leases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	l.version++
	stored := lease.DeepCopy()
	stored.ResourceVersion = strconv.Itoa(l.version)
	l.byName[stored.Name] = stored
	return stored.DeepCopy(), nil
}

func (l *leases) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	delete(l.byName, name)
	l.deleted = append(l.deleted, name)
	return nil
}

// TestAgreeing has replica a, whose record has version 10, carry out what is due.
func TestAgreeing(t *testing.T) {
	const duration, retry = 15 * time.Second, 2 * time.Second
	one, both := shard.NewView("a"), shard.NewView("a", "b")
	all, shared := one.Assign().Of("a"), both.Assign().Of("a")
	cases := map[string]struct {
		view, published shard.View
		held            shard.Set
		unread          bool
		// peer is the version of b's Lease, peerView its view, and peerAge for how long it has not been renewed.
		peer     string
		peerView shard.View
		peerAge  time.Duration

		agreed         bool
		next           time.Duration
		holds, assigns shard.Set
		expels         bool
	}{
		"it waits until the watch has delivered its own record": {
			view: one, published: one, unread: true,
			next: duration, assigns: all,
		},
		"it publishes its first view, and waits for its own write": {
			published: one,
			next:      retry, assigns: all,
		},
		"alone, it takes all slots": {
			view: one, published: one,
			agreed: true, next: duration, holds: all, assigns: all,
		},
		"it continues when nothing is due": {
			view: one, published: one, held: all,
			agreed: true, next: duration, holds: all, assigns: all,
		},
		"it releases the slots of another replica, publishes that, and waits": {
			view: one, published: both, held: all, peer: "9",
			next: retry, holds: shared, assigns: shared,
		},
		"it takes nothing that another replica may hold": {
			view: both, published: both, peer: "9", peerView: shard.NewView("b"),
			agreed: true, next: duration, assigns: shared,
		},
		"it returns when another replica may have expired": {
			view: both, published: both, held: shared, peer: "9", peerView: both, peerAge: 10 * time.Second,
			agreed: true, next: duration*11/10 - 10*time.Second, holds: shared, assigns: shared,
		},
		"it expels a replica that has expired, and waits until the watch says so": {
			view: both, published: both, held: shared, peer: "9", peerView: both, peerAge: 17 * time.Second, expels: true,
			next: retry, holds: shared, assigns: shared,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &leases{version: 10, byName: map[string]*coordinationv1.Lease{}}
				m := New(Config{Group: "group", Duration: duration, Leases: api, Log: logr.Discard()})
				var known []any
				if c.peer != "" {
					other := lease("b", c.peer, c.peerView)
					known = append(known, &other)
				}
				m.records.read(known, nil)
				<-time.After(c.peerAge)
				record := lease("a", "10", c.view)
				own := &ownRecord{Config: m.Config, id: "a", lease: &record, version: "10", renewed: time.Now()}
				if !c.unread {
					m.records.read(append(known, &record), nil)
				}
				if !c.held.IsEmpty() {
					m.take(own, c.held, 1)
				}

				next, agreed, err := m.agree(t.Context(), own)
				if err != nil || agreed != c.agreed {
					t.Errorf("agreed is %t, error %v", agreed, err)
				}
				if wait := time.Until(next); wait != c.next {
					t.Errorf("it continues in %s, want %s", wait, c.next)
				}
				if published, _ := own.published(); !published.View.Equal(c.published) {
					t.Errorf("it has published %q, want %q", published.View, c.published)
				}
				if m.held() != c.holds || m.Assigned() != c.assigns {
					t.Errorf("it holds %d slots of %d, want %d of %d", m.held().Len(), m.Assigned().Len(), c.holds.Len(), c.assigns.Len())
				}
				if c.expels != cmp.Equal(api.deleted, []string{m.nameOf("b")}) {
					t.Errorf("it has deleted %q", api.deleted)
				}
			})
		})
	}
}

// TestDraining releases a slot of which a reconcile runs for some time unless its context ends.
func TestDraining(t *testing.T) {
	const grace = 5 * time.Second
	cases := map[string]struct {
		runs      time.Duration // of the reconcile
		lost      bool
		cancelled bool
		drained   time.Duration // when release returns
	}{
		"no reconcile of a slot runs":              {},
		"a reconcile ends by itself in time":       {runs: time.Second, drained: time.Second},
		"a reconcile is cancelled after some time": {runs: time.Hour, cancelled: true, drained: grace},
		"a reconcile of a lost slot is so at once": {runs: time.Second, lost: true, cancelled: true},
		"no reconcile of a lost slot runs":         {lost: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Config{Duration: time.Hour, Grace: grace, Log: logr.Discard()})
				var moved []int
				m.OnMove(func(slots shard.Set) { moved = append(moved, slots.Len()) })
				slots := shard.Set{}.With(1)
				m.take(&ownRecord{Config: m.Config, renewed: time.Now()}, slots, 1)
				cancelled := false
				if c.runs > 0 {
					ctx, end := m.Begin(t.Context(), 1)
					go func() {
						select {
						case <-ctx.Done():
							cancelled = true
						case <-time.After(c.runs):
						}
						end()
					}()
				}
				began, released := time.Now(), make(chan time.Duration, 1)
				go func() {
					m.release(slots, c.lost)
					released <- time.Since(began)
				}()
				synctest.Wait()
				if _, end := m.Begin(t.Context(), 1); end != nil {
					t.Error("a reconcile begins although the slot is released")
					end()
				}
				if took := <-released; took != c.drained || cancelled != c.cancelled {
					t.Errorf("after %s, cancelled is %t", took, cancelled)
				}
				if m.Holds(1) || !cmp.Equal(moved, []int{1, 1}) {
					t.Errorf("it holds the slot: %t; moves %v", m.Holds(1), moved)
				}
			})
		})
	}
}

// TestHowLongAnotherLeaderIsLeft reads the group's Lease twice.
func TestHowLongAnotherLeaderIsLeft(t *testing.T) {
	held := func(holder, version string) *coordinationv1.Lease {
		l := lease(holder, version, nil)
		return &l
	}
	cases := map[string]struct {
		first, second *coordinationv1.Lease
		after, want   time.Duration
	}{
		"nobody holds it":                         {held("", "1"), held("", "1"), time.Second, 0},
		"all replicas hold it":                    {held(GroupHolder, "1"), held(GroupHolder, "1"), time.Second, 0},
		"a leader has not renewed it":             {held("leader", "1"), held("leader", "1"), 10 * time.Second, 6500 * time.Millisecond},
		"a leader has renewed it":                 {held("leader", "1"), held("leader", "2"), 10 * time.Second, 16500 * time.Millisecond},
		"a leader has expired":                    {held("leader", "1"), held("leader", "1"), 17 * time.Second, -500 * time.Millisecond},
		"a leader has released it":                {held("leader", "1"), held("", "2"), time.Second, 0},
		"a leader holds it that is met only then": {held("", "1"), held("leader", "2"), time.Hour, 16500 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g group
				g.left(c.first)
				<-time.After(c.after)
				if got := g.left(c.second); got != c.want {
					t.Errorf("%s are left, want %s", got, c.want)
				}
			})
		})
	}
}

// TestALostLeaseEndsAllWork has somebody delete the Lease of replica a, or change it so that the others do not know it any
// more: they take over, so a must not wait until it fails to renew the Lease.
func TestALostLeaseEndsAllWork(t *testing.T) {
	one := shard.NewView("a")
	cases := map[string]func(*coordinationv1.Lease) (left []any){
		"it was deleted, or lost its label": func(*coordinationv1.Lease) []any { return nil },
		"its holder was changed": func(l *coordinationv1.Lease) []any {
			l.Spec.HolderIdentity = ptr.To("somebody")
			return []any{l}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &leases{version: 10, byName: map[string]*coordinationv1.Lease{}}
				m := New(Config{Group: "group", Duration: 15 * time.Second, Leases: api, Log: logr.Discard()})
				record := lease("a", "10", one)
				own := &ownRecord{Config: m.Config, id: "a", lease: &record, version: "10", renewed: time.Now()}
				m.records.read([]any{&record}, nil)
				if _, agreed, err := m.agree(t.Context(), own); !agreed || err != nil {
					t.Fatalf("before: agreed is %t, error %v", agreed, err)
				}
				reconcile, end := m.Begin(t.Context(), 1)
				context.AfterFunc(reconcile, end)
				changed := record.DeepCopy()
				changed.ResourceVersion = "12"
				m.records.read(change(changed), changed)
				_, agreed, err := m.agree(t.Context(), own)
				if agreed || !errors.Is(err, errExpired) {
					t.Errorf("agreed is %t, error %v", agreed, err)
				}
				began := time.Now()
				m.depart(own, errors.Is(err, errExpired))
				if took := time.Since(began); took > 0 || reconcile.Err() == nil {
					t.Errorf("a reconcile went on for %s", took)
				}
			})
		})
	}
}

// TestEpochsGrowAfterTheGroupsLeaseWasDeleted deletes the Lease after more transitions than minutes, as they happen when many
// replicas restart. Bindings have their epochs: an owner with a smaller one would be taken for a former leader.
func TestEpochsGrowAfterTheGroupsLeaseWasDeleted(t *testing.T) {
	api := &leases{byName: map[string]*coordinationv1.Lease{}}
	m := New(Config{Group: "group", Duration: 15 * time.Second, Leases: api, Log: logr.Discard()})
	for range 3 {
		if _, err := m.group.advance(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := *api.byName["group"].Spec.LeaseTransitions
	byOther := api.byName["group"].DeepCopy() // another replica has advanced it, and this one has read that
	byOther.Spec.LeaseTransitions, byOther.ResourceVersion = ptr.To(last+100), "50"
	m.records.read([]any{byOther}, nil)
	delete(api.byName, "group")
	m.records.read(nil, byOther)
	if epoch, err := m.group.advance(t.Context()); err != nil || epoch <= int64(last)+100 {
		t.Errorf("the epoch %d follows %d, error %v", epoch, last+100, err)
	}
}
