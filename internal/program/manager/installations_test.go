package manager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// storedLeases are the leases of a namespace.
type storedLeases struct {
	mu        sync.Mutex
	byName    map[string]*coordinationv1.Lease
	conflicts int   // so many updates fail
	listErr   error // of each list
}

func (s *storedLeases) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.byName[name]; ok {
		return l.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(leaseResource, name)
}

func (s *storedLeases) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conflicts > 0 {
		s.conflicts--
		return nil, apierrors.NewConflict(leaseResource, l.Name, errors.New("it has changed"))
	}
	s.byName[l.Name] = l.DeepCopy()
	return l, nil
}

func (s *storedLeases) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &coordinationv1.LeaseList{}
	for _, l := range s.byName {
		out.Items = append(out.Items, *l.DeepCopy())
	}
	return out, s.listErr
}

func (s *storedLeases) hold(name, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, seconds := metav1.NowMicro(), int32(15)
	l := s.byName[name]
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "system"}}
		s.byName[name] = l
	}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds}
}

// installation is one that has just become the leader of its lease.
func (s *storedLeases) installation(t *testing.T, namespaces ...string) *installations {
	t.Helper()
	selector, err := shard.Parse(namespaces, "")
	if err != nil {
		t.Fatal(err)
	}
	name := ShardLeaseName("espalier", selector)
	s.hold(name, "a-pod")
	return &installations{
		leases: s, program: "espalier", own: cluster.Lease{Namespace: "system", Name: name, Program: LeaseName("espalier")}, selector: selector,
		duration: 15 * time.Second, log: logr.Discard(),
	}
}

func newStoredLeases() *storedLeases {
	return &storedLeases{byName: map[string]*coordinationv1.Lease{}}
}

func TestInstallationsThatDoNotOverlapRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoredLeases()
		s.hold("espalier-of-another-program", "b")
		s.hold("aws.espalier.dev", "c")
		began := time.Now()
		s.conflicts = 1 // the elector renews the lease meanwhile
		for _, i := range []*installations{s.installation(t, "!a", "!b"), s.installation(t, "a"), s.installation(t, "b")} {
			if err := i.awaitDisjoint(t.Context()); err != nil {
				t.Errorf("%s: %v", i.selector, err)
			}
			if running, err := i.running(t.Context()); err != nil || len(running) == 0 || !strings.HasPrefix(running[0], "espalier.espalier.dev") {
				t.Errorf("%v run, %v", running, err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("they waited %s", took)
		}
	})
}

func TestAnInstallationWaitsForOneThatOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoredLeases()
		s.hold(LeaseName("espalier"), "the-former-pod") // of all objects, before the namespaces were divided
		i := s.installation(t, "a")
		ended := make(chan error, 1)
		go func() { ended <- i.awaitDisjoint(t.Context()) }()
		<-time.After(10 * time.Second)
		if !strings.Contains(i.wait(), "the-former-pod") {
			t.Errorf("it waits for %q", i.wait())
		}
		s.hold(LeaseName("espalier"), "") // released
		<-time.After(5 * time.Second)
		select {
		case err := <-ended:
			if err != nil || i.wait() != "" {
				t.Errorf("once the other has ended: %v, waiting for %q", err, i.wait())
			}
		default:
			t.Error("it still waits for one that has ended")
		}
	})
}

func TestAnInstallationThatOverlapsIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ first, second []string }{
		"both work on all but some":   {[]string{"!a"}, []string{"!b"}},
		"a namespace of both":         {[]string{"a", "b"}, []string{"b", "c"}},
		"the later one works on all":  {[]string{"a"}, nil},
		"the former one works on all": {nil, []string{"a"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStoredLeases()
			first := s.installation(t, tc.first...)
			if err := first.awaitDisjoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			renew, stop := time.NewTicker(2*time.Second), make(chan struct{})
			go func() {
				for {
					select {
					case <-renew.C:
						s.hold(first.own.Name, "the-first-pod")
					case <-stop:
						return
					}
				}
			}()
			defer close(stop)
			err := s.installation(t, tc.second...).awaitDisjoint(t.Context())
			if err == nil || !strings.Contains(err.Error(), first.own.Name) || !strings.Contains(err.Error(), "--watch-namespaces") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestWithoutPermissionToListLeasesAnInstallationRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoredLeases()
		s.hold(LeaseName("espalier"), "other")
		i := s.installation(t, "a")
		s.listErr = apierrors.NewForbidden(leaseResource, "", errors.New("no role"))
		if err := i.awaitDisjoint(t.Context()); err != nil {
			t.Error(err)
		}
		if running, err := i.running(t.Context()); err == nil {
			t.Errorf("of the installations beside one with a shard, %v run: it cannot know", running)
		}
		all := s.installation(t)
		if running, err := all.running(t.Context()); err != nil || len(running) != 1 || running[0] != all.own.Name {
			t.Errorf("of all objects: %v run, %v", running, err)
		}
		s.listErr = errors.New("the API server is gone")
		if running, err := all.running(t.Context()); err == nil {
			t.Errorf("without an answer, %v run", running)
		}
		if err := i.awaitDisjoint(t.Context()); err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("without an answer: %v", err)
		}
	})
}

// TestEpochsOfInstallationsGrow moves an object from an installation to one with an older lease.
func TestEpochsOfInstallationsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epochOf := func(transitions int) int64 {
			l := &lease{Interface: &recordedLock{}, duration: time.Minute}
			if err := l.Update(t.Context(), recordOf("own", transitions)); err != nil {
				t.Fatal(err)
			}
			_, epoch := l.leader()
			return epoch
		}
		first := epochOf(int(time.Now().Unix()/60) + 1)
		<-time.After(5 * time.Minute)
		if second := epochOf(3); second <= first {
			t.Errorf("the later leader has epoch %d, the former one %d", second, first)
		}
	})
}
