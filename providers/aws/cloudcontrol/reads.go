package cloudcontrol

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// batchWindow is how long the first read of a batch waits for others.
	batchWindow = 20 * time.Millisecond
	// maxBatch is how many resources are read together.
	maxBatch = 100
	// maxAge is how old the result of a read may be that was made together with another resource's.
	maxAge = 15 * time.Second
	// maxKnown bounds the identifiers that are read together with others, of each type.
	maxKnown = 10_000
	// aloneAge is how old a read of one resource alone is before it is repeated, if what only that returns is
	// wanted. Of many resources of a type, one is read alone every aloneGap.
	aloneAge, aloneGap = 10 * time.Minute, 15 * time.Second
)

// readMany reads resources of one type. A resource that does not exist is left out.
type readMany func(ctx context.Context, identifiers []string) (map[string]map[string]any, error)

// Reads reads resources of one account and region together. A batch has the resources that are requested at
// about the same time, and is filled up with those that were requested longest ago: they are the next ones to be
// observed. A result is used once, until it is maxAge old, and never after an operation on the resource. It is
// safe for concurrent use. A nil Reads forgets nothing.
type Reads struct {
	// Now is the clock by which results age.
	now func() time.Time

	mu    sync.Mutex
	types map[string]*typeReads
}

// typeReads are the reads of one type.
type typeReads struct {
	// known are the resources that were requested, by identifier.
	known map[string]*knownRead
	// next is the batch that collects requests; nil if there is none.
	next *batch
	// alone is when a resource was last chosen to be read alone again.
	alone time.Time
}

type knownRead struct {
	// requested is when it was last requested.
	requested time.Time
	// result is what another resource's batch has read; nil if there is nothing, or it was used.
	result map[string]any
	at     time.Time
	// changes counts the operations: a result that was requested before one is not used.
	changes int
	// alone is its last read by itself since its last change; nil if there was none. isChanged reports that there
	// was a change since.
	alone     *aloneRead
	isChanged bool
}

// aloneRead is what the read of one resource returns and a batch does not.
type aloneRead struct {
	values map[string]any
	// generation is that of the managed resource at the read.
	generation int64
	at         time.Time
}

type batch struct {
	identifiers map[string]int // with the count of changes at the request
	ready       chan struct{}
	full        chan struct{}
	results     map[string]map[string]any
	err         error
}

// NewReads returns reads of an account and region.
func NewReads(now func() time.Time) *Reads {
	if now == nil {
		now = time.Now
	}
	return &Reads{now: now, types: map[string]*typeReads{}}
}

// Get reads a resource, together with others.
func (r *Reads) Get(ctx context.Context, typeName, identifier string, read readMany) (properties map[string]any, found bool, err error) {
	r.mu.Lock()
	t := r.of(typeName)
	k := t.get(identifier)
	k.requested = r.now()
	if k.result != nil && r.now().Sub(k.at) <= maxAge {
		properties, k.result = k.result, nil
		r.mu.Unlock()
		return properties, true, nil
	}
	b, isFirst := t.next, false
	if b == nil {
		b, isFirst = &batch{identifiers: map[string]int{}, ready: make(chan struct{}), full: make(chan struct{})}, true
		t.next = b
	}
	b.identifiers[identifier] = k.changes
	if len(b.identifiers) == maxBatch {
		t.next = nil
		close(b.full)
	}
	r.mu.Unlock()
	if isFirst {
		go r.run(context.WithoutCancel(ctx), t, b, read)
	}
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-b.ready:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	properties, found = b.results[identifier]
	return properties, found && b.err == nil, b.err
}

// batchTimeout limits a batch, which does not end with the request that began it.
const batchTimeout = 30 * time.Second

// run waits for requests, and reads the batch.
func (r *Reads) run(ctx context.Context, t *typeReads, b *batch, read readMany) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	timer := time.NewTimer(batchWindow)
	select {
	case <-timer.C:
	case <-b.full:
		timer.Stop()
	}
	r.mu.Lock()
	if t.next == b {
		t.next = nil
	}
	requested := maps.Clone(b.identifiers)
	all := t.fill(b.identifiers, r.now())
	r.mu.Unlock()
	at := r.now()
	results, err := read(ctx, all)
	r.mu.Lock()
	defer r.mu.Unlock()
	b.results, b.err = results, err
	for _, id := range all {
		if results[id] == nil && err == nil {
			delete(t.known, id) // it does not exist
		}
	}
	for id, properties := range results {
		k := t.known[id]
		if _, isRequested := requested[id]; !isRequested && k != nil && k.changes == b.identifiers[id] {
			k.result, k.at = properties, at
		}
	}
	close(b.ready)
}

// get returns what is known of a resource. Of too many, those that were requested longest ago are forgotten.
func (t *typeReads) get(identifier string) *knownRead {
	k := t.known[identifier]
	if k == nil {
		if len(t.known) >= maxKnown {
			for _, id := range t.oldest()[:maxBatch] {
				delete(t.known, id)
			}
		}
		k = &knownRead{}
		t.known[identifier] = k
	}
	return k
}

// fill adds resources to a batch that are due next, and returns all of it, sorted.
func (t *typeReads) fill(batch map[string]int, now time.Time) []string {
	if len(batch) < maxBatch {
		for _, id := range t.oldest() {
			k := t.known[id]
			if _, ok := batch[id]; ok || k.result != nil && now.Sub(k.at) <= maxAge || now.Sub(k.requested) < maxAge {
				continue
			}
			if batch[id] = k.changes; len(batch) == maxBatch {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(batch))
}

// oldest returns the known resources, that which was requested longest ago first.
func (t *typeReads) oldest() []string {
	return slices.SortedFunc(maps.Keys(t.known), func(a, b string) int {
		return cmp.Or(t.known[a].requested.Compare(t.known[b].requested), cmp.Compare(a, b))
	})
}

// Forget drops what is known of a resource that is changed. It is not read with others again before it is
// requested, and read alone before that.
func (r *Reads) Forget(typeName, identifier string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.of(typeName).get(identifier)
	k.result, k.alone, k.isChanged = nil, nil, true
	k.changes++
}

// last returns the last read of a resource alone, nil if there was none, and whether another one is due: after
// a change, or, if its values are wanted, when it is old. There is always time for the others: the more
// resources a type has, the older a read becomes.
func (r *Reads) last(typeName, identifier string, isWanted bool) (last *aloneRead, isDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, now := r.of(typeName), r.now()
	k := t.known[identifier]
	if k != nil {
		last, isDue = k.alone, k.isChanged
	}
	age := max(aloneAge, time.Duration(len(t.known))*aloneGap)
	if isDue || !isWanted || last != nil && now.Sub(last.at) < age || now.Sub(t.alone) < aloneGap {
		return last, isDue
	}
	t.alone = now
	return last, true
}

// keep stores the read of a resource alone.
func (r *Reads) keep(typeName, identifier string, read *aloneRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.of(typeName).get(identifier)
	read.at = r.now()
	k.alone, k.isChanged, k.requested, k.result = read, false, read.at, nil
}

// of returns the reads of a type.
func (r *Reads) of(typeName string) *typeReads {
	t := r.types[typeName]
	if t == nil {
		t = &typeReads{known: map[string]*knownRead{}}
		r.types[typeName] = t
	}
	return t
}
