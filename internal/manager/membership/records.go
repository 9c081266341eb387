package membership

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/listwatch"
	"github.com/espalier-dev/espalier/internal/shard"
)

// records are the Leases of all replicas and of the group, from a watch. It is safe for concurrent use.
type records struct {
	Config
	changed func()

	mu     sync.Mutex
	leases map[string]observed
	// version is the resource version of the latest change of a Lease that was read.
	version uint64
	// epoch is the largest epoch of the group's Lease that was read.
	epoch int32
}

// observed is a Lease as it was read last.
type observed struct {
	*coordinationv1.Lease
	// since is when this version was read first.
	since time.Time
}

func newRecords(c Config, changed func()) *records {
	return &records{Config: c, changed: changed, leases: map[string]observed{}}
}

// run watches until the context ends.
func (r *records) run(ctx context.Context) {
	selector := labels.SelectorFromSet(labels.Set{GroupLabel: r.Group}).String()
	bounds := &listwatch.Bounds{Initial: r.Duration} // a replica that reads no Leases takes no slots
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, r.Duration)
			defer cancel()
			o.LabelSelector = selector
			return r.Leases.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return bounds.Watch(ctx, o, func(ctx context.Context) (watch.Interface, error) { return r.Leases.Watch(ctx, o) })
		},
	}
	store := leaseStore{cache.NewStore(cache.MetaNamespaceKeyFunc), bounds, r.read}
	reflector := cache.NewReflectorWithOptions(source, &coordinationv1.Lease{}, store, cache.ReflectorOptions{Logger: &r.Log, Name: "replicas", Backoff: r.watchBackoff()})
	kube.RunReflector(ctx, r.Log, reflector, r.watchBackoff)
}

// watchBackoff paces attempts to read the Leases: no slower than this replica's Lease is renewed. Once it is renewed after
// an outage of the API server, the others leave slots to this replica, which takes them when it has read their Leases.
func (r *records) watchBackoff() *wait.Backoff {
	period := r.retryPeriod()
	return &wait.Backoff{Duration: period / 8, Factor: 2, Jitter: 0.5, Steps: 5, Cap: period}
}

// leaseStore stores what the watch reports. A list is stored as a whole before it is read: the version of one of its Leases
// says that all of them were read.
type leaseStore struct {
	cache.Store
	bounds *listwatch.Bounds
	read   func(all []any, deleted any)
}

func (s leaseStore) Add(o any) error    { return s.then(nil, s.Store.Add(o)) }
func (s leaseStore) Update(o any) error { return s.then(nil, s.Store.Update(o)) }
func (s leaseStore) Delete(o any) error { return s.then(o, s.Store.Delete(o)) }
func (s leaseStore) Replace(all []any, version string) error {
	s.bounds.Complete()
	return s.then(nil, s.Store.Replace(all, version))
}

// then reads all Leases after a change of the store.
func (s leaseStore) then(deleted any, err error) error {
	s.read(s.List(), deleted)
	return err
}

// read records all Leases that there are, and one that was deleted.
func (r *records) read(all []any, deleted any) {
	r.mu.Lock()
	before := r.leases
	r.leases = make(map[string]observed, len(all))
	isChanged := false
	for _, o := range all {
		if lease, ok := o.(*coordinationv1.Lease); ok {
			was := before[lease.Name]
			delete(before, lease.Name)
			isChanged = r.store(was, lease) || isChanged
		}
	}
	isChanged = isChanged || len(before) > 0
	if lease, ok := deleted.(*coordinationv1.Lease); ok {
		r.note(lease)
	}
	r.mu.Unlock()
	if isChanged {
		r.changed()
	}
}

// store records a Lease in place of what was known of it, and reports whether it was more than renewed. The lock is held.
func (r *records) store(was observed, lease *coordinationv1.Lease) (isChanged bool) {
	if was.Lease != nil && was.UID == lease.UID && was.ResourceVersion == lease.ResourceVersion {
		r.leases[lease.Name] = was // it was not renewed
		return false
	}
	r.leases[lease.Name] = observed{lease, time.Now()}
	r.note(lease)
	if lease.Name == r.Group {
		r.epoch = max(r.epoch, ptr.Deref(lease.Spec.LeaseTransitions, 0))
	}
	return was.Lease == nil || was.UID != lease.UID || !maps.Equal(was.Annotations, lease.Annotations) || !ptr.Equal(was.Spec.HolderIdentity, lease.Spec.HolderIdentity)
}

// note records how far the watch has come. Resource versions of one kind are comparable (KEP-5504).
func (r *records) note(lease *coordinationv1.Lease) {
	if v, err := strconv.ParseUint(lease.ResourceVersion, 10, 64); err == nil {
		r.version = max(r.version, v)
	}
}

// peers returns the other replicas, whether the watch has come as far as a resource version, and when the next
// of them expires if it is not renewed; zero if there is none.
func (r *records) peers(self, version string, now time.Time) (peers []shard.Peer, read bool, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted, err := strconv.ParseUint(version, 10, 64)
	read = err == nil && r.version >= wanted
	for name, o := range r.leases {
		if name == r.nameOf(self) || !r.isOfReplica(o) {
			continue
		}
		expires := o.expires()
		p := shard.Peer{Record: recordOf(o.Lease), Expired: !now.Before(expires)}
		peers = append(peers, p)
		if !p.Expired && (next.IsZero() || expires.Before(next)) {
			next = expires
		}
	}
	return peers, read, next
}

// has reports whether the Lease of a replica was read last as the others know it.
func (r *records) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.leases[r.nameOf(id)]
	return known && r.isOfReplica(o)
}

// lastEpoch is the largest epoch that was read, also after the group's Lease was deleted.
func (r *records) lastEpoch() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// isOfReplica reports whether a Lease is one that a replica has created: the group's is not, nor is a copy that somebody
// has made, with the holder of another one.
func (r *records) isOfReplica(o observed) bool {
	return o.Name != r.Group && o.Name == r.nameOf(recordOf(o.Lease).ID)
}

// expires is when a Lease expires that is not renewed: its holder has stopped before, by its own clock.
func (o observed) expires() time.Time {
	duration := time.Duration(ptr.Deref(o.Spec.LeaseDurationSeconds, 0)) * time.Second
	return o.since.Add(duration + duration/10)
}

// groupHolder is the holder of the group's Lease; empty if it is not known.
func (r *records) groupHolder() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, known := r.leases[r.Group]; known {
		return ptr.Deref(o.Spec.HolderIdentity, "")
	}
	return ""
}

// annotations returns an annotation of the Leases of the other replicas.
func (r *records) annotations(self, annotation string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, o := range r.leases {
		if name != r.nameOf(self) && r.isOfReplica(o) {
			out = append(out, o.Annotations[annotation])
		}
	}
	return out
}

// expel deletes the Lease of a replica that has expired, unless it was renewed meanwhile.
func (r *records) expel(ctx context.Context, id string) error {
	r.mu.Lock()
	o, known := r.leases[r.nameOf(id)]
	r.mu.Unlock()
	if !known {
		return nil
	}
	err := r.Leases.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // its event follows
	}
	return err
}
