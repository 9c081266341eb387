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
	// batchWindow is how long the first read of a batch waits for more.
	batchWindow = 20 * time.Millisecond
	// batchTimeout limits a batch, which does not end with the request that began it.
	batchTimeout = 30 * time.Second
	// maxBatch is how many resources are read together.
	maxBatch = 100
	// maxKnown bounds the identifiers of each type that are read together.
	maxKnown = 10_000
	// aloneAge is how old a read of one resource alone is before it is repeated, if what only that returns is
	// wanted. Of many resources of a type, one is read alone every aloneGap.
	aloneAge, aloneGap = 10 * time.Minute, 15 * time.Second
)

// readMany reads resources of one type. A resource that does not exist is left out.
type readMany func(ctx context.Context, identifiers []string) (map[string]map[string]any, error)

// Reads reads resources of one account and region together. A batch contains the resources that are requested at about
// the same time, and is filled up with resources that are expected to be requested soon. A request waits for a batch
// that reads its resource already. What no request waits for is kept for one request, and never used after an operation
// on the resource, or when it is older than the request allows. It is safe for concurrent use. A nil Reads forgets
// nothing.
type Reads struct {
	// Results age by this clock.
	now func() time.Time

	mu    sync.Mutex
	types map[string]*typeReads
}

type typeReads struct {
	// known are the resources that were requested, by identifier.
	known map[string]*knownRead
	// next is the batch that collects requests; nil if there is none.
	next *batch
	// alone is when a resource was last chosen to be read alone again.
	alone time.Time
}

type knownRead struct {
	requests requests
	// limit is the age of results that the last request allowed.
	limit time.Duration
	// result is what another resource's batch has read at a time; nil if there is nothing, or it was used.
	result map[string]any
	at     time.Time
	// reading is the batch that reads it now; nil if there is none.
	reading *batch
	// changes counts the operations: a result that was requested before one is not used.
	changes int
	// alone is its last read by itself after its last change; nil if there was none. isChanged reports that there was a
	// change afterwards.
	alone     *aloneRead
	isChanged bool
}

// aloneRead is what the read of one resource returns and a batch does not.
type aloneRead struct {
	values map[string]any
	// generation is the managed resource's at the read.
	generation int64
	at         time.Time
}

type batch struct {
	members map[string]*member
	// at is when the read begins.
	at          time.Time
	ready, full chan struct{}
	results     map[string]map[string]any
	err         error
}

// member is a resource of a batch.
type member struct {
	// changes is the count of its changes when it was added.
	changes int
	// isRequested: the resource was requested afterwards. Otherwise, the result is kept for the next request.
	isRequested bool
}

// NewReads returns reads of an account and region.
func NewReads(now func() time.Time) *Reads {
	if now == nil {
		now = time.Now
	}
	return &Reads{now: now, types: map[string]*typeReads{}}
}

// Get reads a resource, together with others. age is how old the result is: not older than limit, than maxAge and,
// unless it is fresh, than three quarters of the request interval. With limit 0, the read begins after the request.
func (r *Reads) Get(ctx context.Context, typeName, identifier string, limit time.Duration, read readMany) (properties map[string]any,
	age time.Duration, found bool, err error) {
	r.mu.Lock()
	t, requested := r.of(typeName), r.now()
	k := t.get(identifier)
	k.requests.add(requested)
	k.limit = limit
	limit = k.requests.age(limit)
	properties, b := k.take(identifier)
	if age = requested.Sub(k.at); properties != nil && limit > 0 && age <= limit {
		r.mu.Unlock()
		return properties, age, true, nil
	}
	if b == nil || limit == 0 || requested.Sub(b.at) > limit || b.members[identifier].changes != k.changes {
		b = r.join(ctx, t, identifier, k.changes, read)
	}
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, 0, false, ctx.Err()
	case <-b.ready:
	}
	properties, found = b.results[identifier]
	return properties, max(0, requested.Sub(b.at)), found && b.err == nil, b.err
}

// Both are nil if there is none. Neither is kept for the next request: its result is read after this one.
func (k *knownRead) take(identifier string) (map[string]any, *batch) {
	result := k.result
	if k.result = nil; k.reading != nil {
		k.reading.members[identifier].isRequested = true
	}
	return result, k.reading
}

// It begins a batch if there is none. The lock is held.
func (r *Reads) join(ctx context.Context, t *typeReads, identifier string, changes int, read readMany) *batch {
	b := t.next
	if b == nil {
		b = &batch{members: map[string]*member{}, ready: make(chan struct{}), full: make(chan struct{})}
		t.next = b
		go r.run(context.WithoutCancel(ctx), t, b, read)
	}
	b.members[identifier] = &member{changes: changes, isRequested: true}
	if len(b.members) == maxBatch {
		t.next = nil
		close(b.full)
	}
	return b
}

func (r *Reads) run(ctx context.Context, t *typeReads, b *batch, read readMany) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	timer := time.NewTimer(batchWindow)
	select {
	case <-timer.C:
	case <-b.full:
		timer.Stop()
	}
	results, err := read(ctx, r.begin(t, b))
	r.end(t, b, results, err)
}

// It fills the batch up. The identifiers are sorted.
func (r *Reads) begin(t *typeReads, b *batch) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.next == b {
		t.next = nil
	}
	b.at = r.now()
	t.fill(b)
	for id := range b.members {
		if k := t.known[id]; k != nil {
			k.reading = b
		}
	}
	return slices.Sorted(maps.Keys(b.members))
}

// It keeps the results that no request waits for.
func (r *Reads) end(t *typeReads, b *batch, results map[string]map[string]any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.results, b.err = results, err
	for id, m := range b.members {
		k := t.known[id]
		if k == nil {
			continue
		}
		if k.reading == b {
			k.reading = nil
		}
		switch {
		case err != nil || k.changes != m.changes:
		case results[id] == nil:
			delete(t.known, id) // it does not exist
		case !m.isRequested:
			k.result, k.at = results[id], b.at
		}
	}
	close(b.ready)
}

// If too many are known, the ones that were requested longest ago are forgotten.
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

// The resources with the next expected requests are added.
func (t *typeReads) fill(b *batch) {
	var due []string
	for id, k := range t.known {
		read := k.at
		if k.result == nil {
			read = time.Time{}
		}
		if b.members[id] == nil && k.reading == nil && !k.isChanged && k.requests.isWorthReading(b.at, read, max(freshAge, k.limit)) {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(x, y string) int {
		return cmp.Or(t.known[x].requests.compare(t.known[y].requests, b.at), cmp.Compare(x, y))
	})
	for _, id := range due[:min(len(due), maxBatch-len(b.members))] {
		b.members[id] = &member{changes: t.known[id].changes}
	}
}

// The resource that was requested longest ago comes first.
func (t *typeReads) oldest() []string {
	return slices.SortedFunc(maps.Keys(t.known), func(a, b string) int {
		return cmp.Or(t.known[a].requests.last.Compare(t.known[b].requests.last), cmp.Compare(a, b))
	})
}

// Forget drops what is known of a resource that is changed. It joins no batch again before it is requested, and read
// alone before that.
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

// It is nil if there was no read alone. Another one is due after a change, or, if its values are wanted, when it is
// old. There is always time for other resources: the more resources a type has, the older a read becomes.
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

func (r *Reads) keep(typeName, identifier string, read *aloneRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.of(typeName).get(identifier)
	k.take(identifier)
	read.at = r.now()
	k.requests.add(read.at)
	k.alone, k.isChanged = read, false
}

func (r *Reads) of(typeName string) *typeReads {
	t := r.types[typeName]
	if t == nil {
		t = &typeReads{known: map[string]*knownRead{}}
		r.types[typeName] = t
	}
	return t
}
