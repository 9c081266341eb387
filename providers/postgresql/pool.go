package postgresql

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idle is how long an unused pool stays open, maxPooled how long an unused connection of it, by checks with
// checkPeriod.
const (
	idle        = 15 * time.Second
	maxPooled   = 2 * time.Second
	checkPeriod = time.Second
)

// pools has one connection pool for each server configuration. A pool is closed when it has been unused for a while,
// such as a changed configuration's.
type pools struct {
	options Options
	mu      sync.Mutex
	all     map[server]*pool
	slots   map[limit]*slots
}

// There is a value for each call in flight.
type slots struct {
	calls chan struct{}
	// changedAt is when a call last began or ended, in nanoseconds.
	changedAt atomic.Int64
}

// A server that does not answer blocks a reconcile for each of its objects, and the program has a limited number of
// these. So the calls to a server are limited, and so are the calls to all servers of one namespace's ProviderConfigs:
// further ones fail after a short wait, and are retried.
const (
	maxPerNamespace = 3
	maxQueueTime    = 2 * time.Second
)

// limit is what the calls are counted by: a namespace, or the address of a ClusterProviderConfig.
type limit struct {
	namespace, address string
	calls              int
}

// As many calls are allowed as the configuration has connections, because more would only wait for these.
func (s server) limit() limit {
	if s.Namespace != "" {
		return limit{namespace: s.Namespace, calls: maxPerNamespace}
	}
	return limit{address: s.scope(), calls: max(maxPerNamespace, int(s.Connections))}
}

func (l limit) exceeded() error {
	if l.namespace != "" {
		return fmt.Errorf("%d calls of namespace %s wait for its servers to answer; this one is retried", l.calls, l.namespace)
	}
	return fmt.Errorf("%d calls of %s have no answer yet; this one is retried", l.calls, l.address)
}

func (p *pools) withSlot(ctx context.Context, to server, do func() error) error {
	of := to.limit()
	p.mu.Lock()
	if p.slots == nil {
		p.slots = map[limit]*slots{}
	}
	s, exists := p.slots[of]
	if !exists {
		s = &slots{calls: make(chan struct{}, of.calls)}
		p.slots[of] = s
	}
	p.mu.Unlock()
	// If none has begun or ended for so long, earlier calls have waited in vain, and this one would too.
	wait := maxQueueTime
	if len(s.calls) == of.calls && time.Since(time.Unix(0, s.changedAt.Load())) >= maxQueueTime {
		wait = 0
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case s.calls <- struct{}{}:
		s.changedAt.Store(time.Now().UnixNano())
		defer func() {
			<-s.calls
			s.changedAt.Store(time.Now().UnixNano())
		}()
		return do()
	case <-timeout.C:
		return &connectError{of.exceeded()}
	case <-ctx.Done():
		return &connectError{context.Cause(ctx)}
	}
}

// pool has the connections of one configuration. Connections to the configured database are pooled. Connections to
// other databases are closed after use, because an open one would block a drop or a copy of the database; slots limits
// them.
type pool struct {
	*pgxpool.Pool
	of    *pools
	key   server
	slots chan struct{}
	users int
	timer *time.Timer
}

// acquire returns the pool of a configuration, which stays open until release is called.
func (p *pools) acquire(s server) (*pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if existing, ok := p.all[s]; ok {
		existing.users++
		if existing.timer != nil {
			existing.timer.Stop()
		}
		return existing, nil
	}
	created, err := newPool(s)
	if err != nil {
		return nil, err
	}
	created.of, created.users = p, 1
	if p.all == nil {
		p.all = map[server]*pool{}
	}
	p.all[s] = created
	return created, nil
}

func newPool(s server) (*pool, error) {
	conn, err := s.connConfig(s.Database)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(baseConnString)
	if err != nil {
		return nil, fmt.Errorf("prepare connections: %w", err)
	}
	c.ConnConfig, c.MaxConns, c.MinConns, c.MinIdleConns = conn, s.Connections, 0, 0
	c.MaxConnIdleTime, c.MaxConnLifetime, c.HealthCheckPeriod, c.AfterConnect = maxPooled, 5*time.Minute, checkPeriod, limitIdleTime
	created, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, fmt.Errorf("prepare connections: %w", err)
	}
	return &pool{Pool: created, key: s, slots: make(chan struct{}, s.Connections)}, nil
}

func (p *pool) release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.users--; p.users == 0 {
		p.timer = time.AfterFunc(idle, p.closeIfUnused)
	}
}

// It may be used again meanwhile, and stays open then.
func (p *pool) closeIfUnused() {
	p.of.mu.Lock()
	unused := p.users == 0 && p.of.all[p.key] == p
	if unused {
		delete(p.of.all, p.key)
	}
	p.of.mu.Unlock()
	if unused {
		p.Close()
	}
}

// It waits for a slot.
func (p *pool) dial(ctx context.Context, database string) (conn *pgx.Conn, release func(), err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	conn, err = p.key.dial(ctx, database)
	if err != nil {
		<-p.slots
		return nil, nil, err
	}
	release = func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the server detects a broken connection itself
		<-p.slots
	}
	if err := resetRole(ctx, conn); err != nil {
		release()
		return nil, nil, err
	}
	return conn, release, nil
}
