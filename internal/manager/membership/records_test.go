package membership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/espalier-dev/espalier/internal/shard"
)

// lists answers each list with the next one, and lets each watch but the last expire at once.
type lists struct {
	coordination.LeaseInterface
	next []*coordinationv1.LeaseList
}

func (l *lists) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	out := l.next[0]
	l.next = l.next[1:]
	return out, nil
}

func (l *lists) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(coordinationv1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	if len(l.next) > 0 {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	return watch.NewFake(), nil
}

func lease(id, version string, view shard.View) coordinationv1.Lease {
	seconds := int32(15)
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: Config{Group: "group"}.nameOf(id), UID: "uid", ResourceVersion: version, Annotations: map[string]string{viewAnnotation: view.String()}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &id, LeaseDurationSeconds: &seconds},
	}
}

// TestAListIsReadAsAWhole lists the Leases anew after the watch has expired. A replica must not take its own record of that
// list for a sign that it has read those of others.
func TestAListIsReadAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		both := shard.NewView("a", "b")
		list := func(version string, items ...coordinationv1.Lease) *coordinationv1.LeaseList {
			return &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}
		}
		r := newRecords(Config{Group: "group", Duration: 15 * time.Second, Leases: &lists{next: []*coordinationv1.LeaseList{
			list("3", lease("a", "1", nil), lease("b", "2", nil)),
			list("12", lease("a", "12", both), lease("b", "11", both)),
		}}}, nil)
		r.changed = func() {
			if peers, read, _ := r.peers("a", "12", time.Now()); read && !peers[0].View.Equal(both) {
				t.Errorf("a has read its own record, and b's with the view %q", peers[0].View)
			}
			if peers, read, _ := r.peers("b", "11", time.Now()); read && !peers[0].View.Equal(both) {
				t.Errorf("b has read its own record, and a's with the view %q", peers[0].View)
			}
		}
		go r.run(ctx)
		<-time.After(time.Minute)
		if _, read, _ := r.peers("a", "12", time.Now()); !read {
			t.Error("nothing was read")
		}
		stop()
		synctest.Wait()
	})
}

// outage refuses all requests until it is over.
type outage struct {
	lists
	until time.Time
}

func (o *outage) List(ctx context.Context, options metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	if time.Now().Before(o.until) {
		return nil, apierrors.NewServiceUnavailable("not ready")
	}
	return o.lists.List(ctx, options)
}

// TestLeasesAreReadSoonAfterALongOutage: a replica renews its Lease as soon as the API server is back, and the others leave
// its slots to it. It takes them once it has read their Leases.
func TestLeasesAreReadSoonAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		const duration = 15 * time.Second
		over := time.Now().Add(10 * time.Minute)
		r := newRecords(Config{Group: "group", Duration: duration, Leases: &outage{until: over, lists: lists{next: []*coordinationv1.LeaseList{
			{ListMeta: metav1.ListMeta{ResourceVersion: "3"}, Items: []coordinationv1.Lease{lease("a", "1", nil), lease("b", "2", nil)}},
		}}}}, func() {})
		go r.run(ctx)
		<-time.After(time.Until(over) + duration/3)
		if _, read, _ := r.peers("a", "1", time.Now()); !read {
			t.Errorf("no Lease was read within %s of the end of the outage", duration/3)
		}
		stop()
		synctest.Wait()
	})
}

// stuck does not answer the first request of each verb, as a proxy does that has lost its connection. Its watches do not end.
type stuck struct {
	lists
	verbs map[string]bool
}

func (s *stuck) once(ctx context.Context, verb string) error {
	if s.verbs[verb] {
		return nil
	}
	s.verbs[verb] = true
	<-ctx.Done()
	return ctx.Err()
}

func (s *stuck) List(ctx context.Context, options metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	if err := s.once(ctx, "list"); err != nil {
		return nil, err
	}
	return s.lists.List(ctx, options)
}

func (s *stuck) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := s.once(ctx, "watch"); err != nil {
		return nil, err
	}
	return s.lists.Watch(ctx, options)
}

// TestLeasesAreReadAlthoughARequestIsNotAnswered: a replica that reads no Leases takes no slots, and the others wait for it.
func TestLeasesAreReadAlthoughARequestIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := newRecords(Config{Group: "group", Duration: 15 * time.Second, Leases: &stuck{verbs: map[string]bool{}, lists: lists{next: []*coordinationv1.LeaseList{
			{ListMeta: metav1.ListMeta{ResourceVersion: "3"}, Items: []coordinationv1.Lease{lease("a", "1", nil)}},
		}}}}, func() {})
		go r.run(ctx)
		<-time.After(time.Minute)
		if _, read, _ := r.peers("a", "1", time.Now()); !read {
			t.Error("no Lease was read")
		}
		stop()
		synctest.Wait()
	})
}

// TestACopyOfALeaseIsNoReplica has a copy of a replica's Lease, which nobody renews. It must not be taken for the replica,
// whose Lease would be deleted.
func TestACopyOfALeaseIsNoReplica(t *testing.T) {
	r := newRecords(Config{Group: "group"}, func() {})
	copied := lease("b", "3", nil)
	copied.Name, copied.Spec.LeaseDurationSeconds = "copy", nil
	var all []any
	for _, l := range []coordinationv1.Lease{lease("a", "1", nil), lease("b", "2", nil), copied} {
		all = append(all, &l)
	}
	r.read(all, nil)
	peers, _, _ := r.peers("a", "1", time.Now())
	if len(peers) != 1 || peers[0].Expired {
		t.Errorf("a's peers are %+v", peers)
	}
	if n := len(r.annotations("a", viewAnnotation)); n != 1 {
		t.Errorf("a has read the annotation of %d others", n)
	}
}

// TestPeers reads Leases, and the peers of a some time later. The Leases last for 15 seconds, and a tenth.
func TestPeers(t *testing.T) {
	both := shard.NewView("a", "b")
	group := lease("replicas", "4", nil)
	group.Name = "group"
	cases := map[string]struct {
		leases  []coordinationv1.Lease
		version string
		after   time.Duration
		want    []shard.Peer
		read    bool
		next    time.Duration
	}{
		"nobody is there": {
			version: "1",
		},
		"its own Lease and the group's are no peers": {
			leases: []coordinationv1.Lease{lease("a", "5", both), group}, version: "5",
			read: true,
		},
		"its own write is not read": {
			leases: []coordinationv1.Lease{lease("a", "5", both), lease("b", "6", both)}, version: "7",
			want: []shard.Peer{{Record: shard.Record{ID: "b", View: both}}}, next: 16500 * time.Millisecond,
		},
		"a version that is no number is never read": {
			leases: []coordinationv1.Lease{lease("a", "5", both)}, version: "",
		},
		"a later write of another replica suffices": {
			leases: []coordinationv1.Lease{lease("b", "8", both)}, version: "7",
			want: []shard.Peer{{Record: shard.Record{ID: "b", View: both}}}, read: true, next: 16500 * time.Millisecond,
		},
		"a peer is about to expire": {
			leases: []coordinationv1.Lease{lease("b", "8", both)}, version: "7", after: 16 * time.Second,
			want: []shard.Peer{{Record: shard.Record{ID: "b", View: both}}}, read: true, next: 500 * time.Millisecond,
		},
		"a peer has expired": {
			leases: []coordinationv1.Lease{lease("b", "8", both)}, version: "7", after: 16500 * time.Millisecond,
			want: []shard.Peer{{Record: shard.Record{ID: "b", View: both}, Expired: true}}, read: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecords(Config{Group: "group"}, func() {})
				var all []any
				for _, l := range c.leases {
					all = append(all, &l)
				}
				r.read(all, nil)
				<-time.After(c.after)
				now := time.Now()
				peers, read, next := r.peers("a", c.version, now)
				if diff := cmp.Diff(c.want, peers); diff != "" || read != c.read {
					t.Errorf("read is %t, peers: %s", read, diff)
				}
				if next.IsZero() != (c.next == 0) || c.next > 0 && next.Sub(now) != c.next {
					t.Errorf("the next one expires at %s, want in %s", next, c.next)
				}
			})
		})
	}
}
